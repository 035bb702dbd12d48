/* lk__plan: which tensors of a state go to which part (file) of a checkpoint, in the order they are
 * given, as many to a part as have room.  Every rank computes the same plan; save.c makes it. */
#include "io/checkpoint/checkpoint.h"
#include "io/safetensors/safetensors.h"

#include <lockstep/coll.h>
#include <lockstep/extra/checked.h>

#include <string.h>

enum { MOST_PARTS = 100000 };

static lk_status names_check(const lk_state *s)
{
    const char **name = NULL;
    int64_t most = s->n_tensors > s->n_numbers ? s->n_tensors : s->n_numbers;
    LK_TRY(lk_alloc(&name, most > s->n_metadata ? most : s->n_metadata, sizeof *name));
    lk_status st = LK_OK;
    for (int64_t i = 0; i < s->n_tensors; i++)
        name[i] = s->tensor[i].name ? s->tensor[i].name : "";
    LK_TRY_TO(done, lk__names_check("tensor", name, s->n_tensors));
    for (int64_t i = 0; i < s->n_numbers; i++)
        name[i] = s->number[i].name ? s->number[i].name : "";
    LK_TRY_TO(done, lk__names_check("number", name, s->n_numbers));
    for (int64_t i = 0; i < s->n_metadata; i++)
        name[i] = s->metadata[i].name && s->metadata[i].text ? s->metadata[i].name : "";
    LK_TRY_TO(done, lk__names_check("metadata", name, s->n_metadata));
done:
    lk_free(name);
    return st;
}

static lk_status text_copy(lk_checkpoint *c, const char *text, const char **out)
{
    return lk_arena_text(c->arena, text, strlen(text), out);
}

lk__box_held lk__state_held(const lk_state_tensor *t)
{
    lk__box_held held = {t->data, lk_box_whole(t->shape.ndim, t->shape.dim), t->shape};
    if (t->box && lk_box_count(t->box) != lk_box_count(&held.box)) {
        held.box = *t->box;
        held.of = t->box_of ? *t->box_of : t->shape;
    }
    return held;
}

static lk_status box_check(const lk_state_tensor *t)
{
    lk_shape of = t->box_of ? *t->box_of : t->shape;
    lk_box box = t->box ? *t->box : lk_box_whole(of.ndim, of.dim);
    int64_t count, there;
    LK_TRY(lk_shape_count(of, &count));
    LK_TRY(lk_shape_count(t->shape, &there));
    LK_CHECK(count == there, LK_ESHAPE, "tensor \"%s\" is %s, but its box one of %s", t->name,
             lk_shape_text(t->shape).s, lk_shape_text(of).s);
    LK_CHECK(box.ndim == of.ndim, LK_ESHAPE, "tensor \"%s\" has %d axes, its box %d", t->name,
             of.ndim, box.ndim);
    lk_shape first = {.ndim = box.ndim}, n = {.ndim = box.ndim};
    memcpy(first.dim, box.first, sizeof first.dim);
    memcpy(n.dim, box.n, sizeof n.dim);
    LK_CHECK(lk_box_is_within(&box, of.dim), LK_ESHAPE,
             "tensor \"%s\" is %s, its box of %s from %s on is not within it", t->name,
             lk_shape_text(of).s, lk_shape_text(n).s, lk_shape_text(first).s);
    LK_CHECK(t->data || lk_box_count(&box) == 0, LK_EINVAL,
             "tensor \"%s\" has %lld elements, but data is NULL", t->name,
             (long long)lk_box_count(&box));
    return LK_OK;
}

static lk_status tensor_copy(lk_checkpoint *c, const lk_state_tensor *from,
                             lk_checkpoint_tensor *to)
{
    int64_t count;
    LK_CHECK(lk__safetensors_dtype(from->dtype), LK_EDTYPE, "tensor \"%s\" has dtype number %d",
             from->name, (int)from->dtype);
    LK_CHECK(strcmp(from->name, "__metadata__") != 0, LK_EINVAL,
             "a tensor cannot be named __metadata__");
    LK_TRY(lk_shape_count(from->shape, &count));
    LK_TRY(lk_mul_i64(count, (int64_t)lk_dtype_size(from->dtype), &to->bytes));
    LK_TRY(box_check(from));
    LK_TRY(text_copy(c, from->name, &to->name));
    to->dtype = from->dtype;
    to->shape = from->shape;
    return LK_OK;
}

static lk_status state_copy(lk_checkpoint *c, const lk_state *s)
{
    LK_TRY(lk_arena_alloc(c->arena, &c->tensor, s->n_tensors, sizeof *c->tensor));
    LK_TRY(lk_arena_alloc(c->arena, &c->number, s->n_numbers, sizeof *c->number));
    LK_TRY(lk_arena_alloc(c->arena, &c->metadata, s->n_metadata, sizeof *c->metadata));
    for (; c->n_tensors < s->n_tensors; c->n_tensors++)
        LK_TRY(tensor_copy(c, &s->tensor[c->n_tensors], &c->tensor[c->n_tensors]));
    for (; c->n_numbers < s->n_numbers; c->n_numbers++) {
        lk_state_number *to = &c->number[c->n_numbers];
        *to = s->number[c->n_numbers];
        LK_CHECK(to->dtype == LK_I64 || to->dtype == LK_F64, LK_EDTYPE,
                 "number \"%s\" is %s, neither i64 nor f64", to->name, lk_dtype_name(to->dtype));
        LK_TRY(text_copy(c, to->name, &to->name));
    }
    for (; c->n_metadata < s->n_metadata; c->n_metadata++) {
        LK_TRY(text_copy(c, s->metadata[c->n_metadata].name, &c->metadata[c->n_metadata].name));
        LK_TRY(text_copy(c, s->metadata[c->n_metadata].text, &c->metadata[c->n_metadata].text));
    }
    return LK_OK;
}

/* Give each tensor its part: a new one where it does not fit. */
static lk_status parts_cut(lk_checkpoint *c, int64_t part_bytes)
{
    int64_t held = 0, total = 0;
    for (int64_t i = 0; i < c->n_tensors; i++) {
        LK_TRY(lk_add_i64(total, c->tensor[i].bytes, &total));
        if (i == 0 || c->tensor[i].bytes > part_bytes - held) {
            c->n_parts++;
            held = 0;
        }
        held = held + c->tensor[i].bytes > part_bytes ? part_bytes : held + c->tensor[i].bytes;
        c->tensor[i].part = c->n_parts - 1;
    }
    LK_CHECK(c->n_parts <= MOST_PARTS, LK_EINVAL, "a state of %lld parts, at most %d",
             (long long)c->n_parts, MOST_PARTS);
    return LK_OK;
}

int64_t lk__part_begin(const lk_checkpoint *c, int64_t i)
{
    int64_t low = 0, high = c->n_tensors;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (c->tensor[middle].part < i)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

lk_status lk__plan_header(const lk_checkpoint *c, int64_t i, char **out, int64_t *bytes)
{
    int64_t first = lk__part_begin(c, i), n = lk__part_begin(c, i + 1) - first;
    lk_safetensors_info *info = NULL;
    *out = NULL;
    LK_TRY(lk_alloc(&info, n, sizeof *info));
    for (int64_t k = 0; k < n; k++)
        info[k] = (lk_safetensors_info){.name = c->tensor[first + k].name,
                                        .dtype = c->tensor[first + k].dtype,
                                        .shape = c->tensor[first + k].shape,
                                        .bytes = c->tensor[first + k].bytes};
    lk_status st = lk__safetensors_header(info, n, NULL, 0, out, bytes);
    lk_free(info);
    return LK_TRACE(st);
}

/* Names, lengths, and places of tensors in their files. */
static lk_status parts_place(lk_checkpoint *c)
{
    LK_TRY(lk_arena_alloc(c->arena, &c->part, c->n_parts, sizeof *c->part));
    for (int64_t i = 0; i < c->n_parts; i++) {
        char file[32], *header;
        snprintf(file, sizeof file, "part-%05d.safetensors", (int)i);
        LK_TRY(text_copy(c, file, &c->part[i].file));
        LK_TRY(lk__plan_header(c, i, &header, &c->part[i].bytes));
        lk_free(header);
        for (int64_t k = lk__part_begin(c, i); k < lk__part_begin(c, i + 1); k++) {
            c->tensor[k].offset = c->part[i].bytes;
            c->part[i].bytes += c->tensor[k].bytes;
        }
    }
    return LK_OK;
}

lk_status lk__plan_make(const lk_state *state, uint64_t identity, int64_t part_bytes,
                        lk_checkpoint **out)
{
    lk_status st;
    lk_checkpoint *c = NULL;
    *out = NULL;
    LK_CHECK(state->step >= 0 && state->n_tensors >= 0 && state->n_numbers >= 0 &&
                 state->n_metadata >= 0,
             LK_EINVAL, "a step or a number of the state is negative");
    LK_TRY(names_check(state));
    LK_TRY(lk_alloc_zero(&c, 1, sizeof *c));
    c->path = c->messages = "";
    c->step = state->step;
    c->identity = identity;
    c->hash = state->hash;
    c->hash_format = LK_HASH_FORMAT;
    LK_TRY_TO(fail, lk_arena_new(&c->arena));
    LK_TRY_TO(fail, state_copy(c, state));
    LK_TRY_TO(fail, parts_cut(c, part_bytes));
    LK_TRY_TO(fail, parts_place(c));
    *out = c;
    return LK_OK;
fail:
    lk_checkpoint_free(c);
    return st;
}

uint64_t lk__plan_digest(const lk_checkpoint *c, bool values)
{
    lk_hash h = lk_hash_start();
    lk_hash_add_i64(&h, c->step);
    lk_hash_add_i64(&h, (int64_t)c->hash);
    lk_hash_add_i64(&h, (int64_t)c->identity);
    for (int64_t i = 0; i < c->n_tensors; i++)
        lk_hash_add_header(&h, c->tensor[i].name, c->tensor[i].dtype, c->tensor[i].shape.ndim,
                           c->tensor[i].shape.dim);
    for (int64_t i = 0; i < c->n_numbers; i++) {
        lk_hash_add_text(&h, c->number[i].name);
        if (values)
            lk_hash_add_bytes(&h,
                              c->number[i].dtype == LK_I64 ? (const void *)&c->number[i].i64
                                                           : (const void *)&c->number[i].f64,
                              8);
    }
    return lk_hash_value(&h);
}

lk_status lk__plan_agree(lk_comm *comm, uint64_t digest)
{
    uint64_t first = digest;
    if (!comm)
        return LK_OK;
    LK_TRY(lk_bcast(comm, &first, 1, LK_I64, 0, "state"));
    lk_status st = LK_OK;
    if (digest != first)
        st = LK_RAISE(LK_ESTATE, "its tensors are not those of rank 0: all ranks give the same "
                                 "names, types and shapes in the same order");
    return LK_TRACE(lk_agree(comm, st));
}
