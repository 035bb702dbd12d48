# A random experiment on images or volumes for tests/long/tiles.sh: data, layers, pieces, and layouts that
# the pieces allow.
#
#   awk -v seed=N -v table=PATH -f tests/long/tile_nets.awk
#
# prints the experiment, and its layouts in a comment; some have PATH.csv as data, which it writes.

function pick(n) { return int(rand() * n) } # 0 to n - 1
function one_of(words, list, n) { n = split(words, list, " "); return list[1 + pick(n)] }

# "[3, 1]" of numbers of each axis.
function axes_text(of, text, d)
{
    text = "[" of[1]
    for (d = 2; d <= ndim; d++) text = text ", " of[d]
    return text "]"
}

# Outputs of a window along an axis of n positions: below 1 if it does not fit.
function outputs(n, kernel, stride, pad, dilation)
{
    n += 2 * pad - dilation * (kernel - 1) - 1
    return n < 0 ? 0 : int(n / stride) + 1
}

# A window for the present size; what comes out is in `out`.  keep: as large as what comes in.
function window(keep, dilated, pads, text, tries, d, kernel, stride, pad, dilation, fits)
{
    for (tries = 0; tries < 50; tries++) {
        fits = 1
        for (d = 1; d <= ndim; d++) {
            kernel[d] = keep ? 1 + 2 * pick(3) : 1 + pick(5)
            dilation[d] = dilated && pick(3) == 0 ? 2 : 1
            stride[d] = keep ? 1 : 1 + pick(3)
            pad[d] = keep ? dilation[d] * (kernel[d] - 1) / 2 : pick(pads ? kernel[d] : 1)
            if (!dilated && pad[d] >= kernel[d]) pad[d] = kernel[d] - 1
            out[d] = outputs(size[d], kernel[d], stride[d], pad[d], dilation[d])
            if (out[d] < 1) fits = 0
        }
        if (!fits) continue
        if (!keep && pick(4) == 0) {
            for (d = 1; d <= ndim; d++) out[d] = int((size[d] - 1) / stride[d]) + 1
            text = ", pad: same"
        } else {
            text = ", padding: " axes_text(pad)
        }
        return axes_text(kernel) ", stride: " axes_text(stride) text (dilated ? ", dilation: " axes_text(dilation) : "")
    }
    for (d = 1; d <= ndim; d++) { out[d] = size[d]; kernel[d] = 1 }
    return axes_text(kernel) ", stride: " axes_text(kernel)
}

function take(d) { for (d = 1; d <= ndim; d++) size[d] = out[d] }

function conv(keep, filters, text, groups)
{
    if (ndim == 2 && pick(6) == 0) {
        channels = filters
        return "{type: conv, filters: " filters ", kernel: 3, padding: 1, algorithm: winograd}"
    }
    text = window(keep, 1, 1)
    groups = channels % 2 == 0 && filters % 2 == 0 && pick(4) == 0 ? 2 : 1
    take()
    channels = filters
    return "{type: conv, filters: " filters ", kernel: " text ", groups: " groups (pick(4) ? "" : ", bias: false") "}"
}

function same_size(kind)
{
    kind = pick(9)
    if (kind < 3) return conv(1, 1 + pick(4))
    if (kind == 3) return "{type: batch_norm, statistics: " one_of(recurrent ? "shard" : "shard shard batch") "}"
    if (kind == 4) return "{type: dropout, rate: 0.2}"
    if (kind == 5 && pick(2)) return "{type: layer_norm, axes: " ndim + 1 "}"
    if (kind == 5) return one_of("layer_norm softmax log_softmax")
    if (kind == 6 && ndim == 2) return "{type: lcn, size: 3}"
    if (kind == 7) { text = 1 + pick(4); channels = text; return "{type: linear, units: " text "}" }
    return one_of("relu tanh sigmoid elu gelu leaky_relu softplus")
}

# Layers that keep the size, and end with as many channels as told, 0: any.
function block(filters, text, n)
{
    text = same_size()
    for (n = pick(3); n > 0; n--) text = text ", " same_size()
    if (filters) text = text ", " conv(1, filters)
    return "[" text "]"
}

function residual(before, text, after)
{
    before = channels
    if (pick(2)) {
        text = block(0)
        channels += before
        return "{type: residual, join: concat, layers: " text "}"
    }
    text = block(pick(2) ? before : 1 + pick(4))
    after = channels
    if (after == before && pick(2)) return "{type: residual, layers: " text "}"
    channels = before
    text = "{type: residual, layers: " text ", shortcut: [" conv(1, after) "]}"
    return text
}

# A level of a U-Net: half the size and back; if it is not even, rounded up and cut again.
function level(before, text, d, was, same, fit)
{
    same = pick(2) ? ", pad: same" : ""
    for (d = 1; d <= ndim; d++) { if (size[d] % 2) same = ", pad: same"; was[d] = size[d] }
    fit = same ? ", fit: true" : ""
    before = channels
    for (d = 1; d <= ndim; d++) size[d] = int((size[d] + 1) / 2)
    text = "{type: " one_of("maxpool avgpool l2pool") ", size: 2" same "}, " conv(1, 1 + pick(4)) ", " same_size()
    if (pick(2)) text = text ", " residual()
    for (d = 1; d <= ndim; d++) size[d] = was[d]
    if (pick(3)) {
        channels = 1 + pick(3)
        text = text ", {type: conv_transpose, filters: " channels ", kernel: " 2 + pick(2) ", stride: 2"
        text = text (text ~ /kernel: 3, stride: 2$/ ? ", padding: 1, fit: true" : fit) "}"
    } else {
        text = text ", {type: repeat, size: 2" fit "}"
    }
    channels += before
    return "{type: residual, join: concat, layers: [" text "]}"
}

function layer(keep, kind, text)
{
    kind = pick(10)
    if (keep) return kind < 2 ? residual() : kind < 5 ? level() : same_size()
    if (kind < 3) return conv(0, 1 + pick(4))
    if (kind == 3) {
        text = "{type: " one_of("maxpool avgpool l2pool") ", size: " window(0, 0, 1) "}"
        take()
        return text
    }
    if (kind == 4) return residual()
    if (kind == 5) return level()
    if (kind == 6) {
        channels = 1 + pick(2)
        return conv_transpose()
    }
    return same_size()
}

# The named model, whose layers end with the classes.
function unet()
{
    return "{type: unet, depth: " 1 + pick(3) ", width: " 1 + pick(3) ", convs: " 1 + pick(2) ", norm: " one_of("batch layer none") ", up: " one_of("transpose repeat") ", classes: " classes "}"
}

function conv_transpose(d, kernel, stride)
{
    for (d = 1; d <= ndim; d++) {
        kernel[d] = 1 + pick(3)
        stride[d] = size[d] > 8 ? 1 : 1 + pick(2)
        size[d] = (size[d] - 1) * stride[d] + kernel[d]
    }
    return "{type: conv_transpose, filters: " channels ", kernel: " axes_text(kernel) ", stride: " axes_text(stride) "}"
}

# Layers behind the images.
function tail(text)
{
    if (recurrent) {
        text = "  - {type: reshape, shape: [-1, " size[ndim] * channels "]}\n"
        return text "  - {type: " one_of("rnn gru lstm") ", units: 5}\n  - {type: linear, units: " classes "}"
    }
    if (pick(2)) return "  - global_avgpool\n  - {type: linear, units: " classes "}"
    text = "  - flatten\n"
    if (pick(2)) text = text "  - {type: linear, units: 7}\n  - relu\n"
    return text "  - {type: linear, units: " classes "}"
}

function table_write(columns, i, k)
{
    for (i = 0; i < count; i++) {
        for (k = 0; k < columns; k++) printf "%.4f,", 2 * rand() - 1 >(table ".csv")
        print pick(10) >(table ".csv")
    }
    close(table ".csv")
}

function product(of, n, d) { n = 1; for (d = 1; d <= 3; d++) n *= of[d]; return n }

# A layout of 2 to 12 ranks that pieces and shards allow, as a word.
function layout(d, ranks, replicas, tries, axes)
{
    for (tries = 0; tries < 40; tries++) {
        for (d = 1; d <= 3; d++) ranks[d] = d <= ndim ? 1 + pick(tiles[d]) : 1
        replicas = pick(2) ? 1 : 1 + pick(shards < 4 ? shards : 4)
        if (product(ranks) * replicas > 12 || product(ranks) * replicas < 2) continue
        axes = ndim == 1 ? "spatial" ranks[1] : ranks[1] "x" ranks[2] (ndim == 3 ? "x" ranks[3] : "")
        if (product(ranks) == 1) return "data" replicas
        return replicas > 1 ? "data" replicas "." axes : axes
    }
    return shards > 1 ? "data2" : ""
}

BEGIN {
    srand(seed)
    for (d = 0; d < 5; d++) rand()
    kind = pick(10)
    ndim = kind < 7 ? 2 : kind < 8 ? 1 : 3
    positions = kind == 9 || kind == 6 # a label at each position
    classes = positions ? 2 + pick(2) : 10
    for (d = 1; d <= 3; d++) size[d] = ndim == 3 || positions ? 4 + pick(6) : 3 + pick(18)
    if (positions && pick(2)) for (d = 1; d <= 3; d++) size[d] += size[d] % 2
    recurrent = ndim < 3 && !positions && pick(4) == 0
    batch = 1 + pick(9)
    shards = 1 + pick(batch)
    piece = int((batch - 1) / shards) + 1
    shards = int((batch - 1) / piece) + 1 # of equal size but for the last
    batches = 1 + pick(2)
    count = batch * batches + pick(batch)
    channels = 1 + pick(2)
    if (positions) channels = 1
    type = positions || ndim == 3 ? "fractal" : one_of("glyphs shapes")
    if (type == "shapes") classes = 2
    if (ndim < 3 && !positions && (size[1] < 8 || size[2] < 8)) {
        type = "csv"
        classes = 10
    }
    tests = pick(4)
    common = ", batch: " batch ", shards: " shards
    if (type == "csv") common = common ", path: " table ".csv, test: " table ".csv, header: no, classes: 10"
    else common = common ", count: " count ", test_count: " tests
    named = positions && pick(4) == 0
    if (type == "fractal" && ndim == 2 && (named || pick(2))) {
        shape = "[" size[1] ", " size[2] ", 1]"
    } else if (type == "fractal" && ndim == 2) {
        size[2] *= 2
        shape = "[4, " size[1] ", " size[2] ", 1]"
        size[1] *= 4
        first = "  - {type: reshape, shape: [" size[1] ", " size[2] ", 1]}\n"
        last = "  - {type: reshape, shape: [4, " size[1] / 4 ", " size[2] ", " classes "]}"
    } else if (ndim == 3) {
        shape = "[" size[1] ", " size[2] ", " size[3] ", 1]"
        channels = 1
    } else {
        shape = "[" size[1] ", " size[2] ", " channels "]"
        if (ndim == 1) {
            first = "  - {type: reshape, shape: [" size[1] * size[2] ", " channels "]}\n"
            size[1] *= size[2]
        } else if (pick(4) == 0) {
            common = common ", crop: 2, flip: true"
        }
    }
    if (type == "csv") table_write(size[1] * (ndim == 1 ? 1 : size[2]) * channels)
    if (type == "fractal") common = common ", classes: " classes
    print "data: {type: " type ", shape: " shape common "}"
    if (pick(8) == 0) print "dtype: f64"
    if (named) print "model: " unet()
    else print "model:"
    printf "%s", first
    keep = positions
    if (ndim == 3 && !positions) keep = 1 # its labels are those of positions: it is read as one
    for (n = 1 + pick(5); n > 0 && !named; n--) print "  - " layer(keep)
    if (named) {
        # it has all its layers
    } else if (type == "fractal") {
        print pick(2) ? "  - {type: linear, units: " classes "}" : "  - {type: conv, kernel: 1, filters: " classes "}"
        if (last) print last
    } else {
        print tail()
    }
    if (classes < 10 && pick(2)) print "loss: {type: softmax_cross_entropy, weights: [0.5, " 1 + rand() (classes == 3 ? ", 0.25" : "") "]}"
    else print "loss: softmax_cross_entropy"
    if (pick(2)) print "metrics: [" one_of("accuracy dice iou") "]"
    clip = pick(4) ? "" : ", clip_norm: 0.5"
    print "optimizer: {type: " one_of("adam sgd lbfgs") clip "}"
    for (d = 1; d <= 3; d++) tiles[d] = d <= ndim ? 1 + pick(ndim == 3 ? 3 : 4) : 1
    print "pieces: {tiles: " tiles[1] (ndim > 1 ? "x" tiles[2] : "") (ndim > 2 ? "x" tiles[3] : "") ", least_tile: " one_of("0 1 1 4 16") "}"
    if (pick(3) == 0) print "parallel: {update: " one_of("each shared") ", overlap: " one_of("yes no") "}"
    print "train: {epochs: 1}"
    printf "# layouts: 1"
    for (n = 0; n < 3; n++) printf " %s", layout()
    print ""
}
