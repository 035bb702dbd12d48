"""The sets of `lockstep bench data` by tf.data.

    peer_tensorflow_data.py FOLDER SAMPLES

Answers each line "CASE READERS BATCHES" on stdin with one line on stdout: the seconds in which tf.data, with
READERS threads, delivers BATCHES batches of 128 images as f32 in [0, 1], and how many samples that were.
Shuffled is by a buffer of all samples.  The first line it prints is its version.
"""
import glob
import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import tensorflow  # noqa: E402

BATCH = 128
FEATURES = {
    "image_raw": tensorflow.io.FixedLenFeature([], tensorflow.string),
    "label": tensorflow.io.FixedLenFeature([], tensorflow.int64),
}


def parse(record):
    f = tensorflow.io.parse_single_example(record, FEATURES)
    image = tensorflow.reshape(tensorflow.io.decode_raw(f["image_raw"], tensorflow.uint8), [32, 32, 3])
    return tensorflow.cast(image, tensorflow.float32) / 255, f["label"]


def batches(folder, samples, case, readers):
    packed = "gzip" in case
    files = sorted(glob.glob(folder + ("/gzip-*.tfrecord.gz" if packed else "/plain-*.tfrecord")))
    ds = tensorflow.data.TFRecordDataset(files, "GZIP" if packed else "", num_parallel_reads=readers)
    if "in order" not in case:
        ds = ds.shuffle(samples)
    ds = ds.map(parse, num_parallel_calls=readers).batch(BATCH, drop_remainder=True).repeat().prefetch(2)
    options = tensorflow.data.Options()
    options.threading.private_threadpool_size = readers
    options.threading.max_intra_op_parallelism = 1
    return iter(ds.with_options(options))


def main():
    print("TensorFlow", tensorflow.__version__, flush=True)
    running = {}
    for line in sys.stdin:
        *case, readers, n = line.split()
        key = (" ".join(case), int(readers))
        if key not in running:
            running[key] = batches(sys.argv[1], int(sys.argv[2]), *key)
            next(running[key])
        start = time.perf_counter()
        samples = sum(int(next(running[key])[1].shape[0]) for _ in range(int(n)))
        print(repr(time.perf_counter() - start), samples, flush=True)


main()
