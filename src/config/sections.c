/* The sections of an experiment file (data, model, train, parallel, ...): their tables of options,
 * and the registry that lists them for `lockstep help`. experiment.c binds a file to them. */
#include "config/sections.h"

#include <lockstep/extra/pipeline.h>
#include <lockstep/loss.h>
#include <lockstep/metric.h>
#include <lockstep/optim.h>

#include <stdlib.h>
#include <string.h>

#define FIELD(member) offsetof(lk_experiment, member)
static const lk_option experiment_options[] = {
    {"about", LK_OPTION_TEXT, FIELD(about), .help = "a sentence about it, for reports",
     .flags = LK_OPTION_NO_HASH},
    {"seed", LK_OPTION_INT, FIELD(seed), .def = "1", .min = 0, .max = 1e15,
     .help = "of everything that is drawn: initial values, sample order, dropout, augmentation"},
    {"dtype", LK_OPTION_CHOICE, FIELD(precision), .def = "f32", .choices = "f32 f64",
     .help = "of parameters and arithmetic"},
    {"loss", LK_OPTION_CONFIG, FIELD(loss), .registry = &lk_registry_loss,
     .flags = LK_OPTION_REQUIRED, .help = "what training makes small"},
    {"metrics", LK_OPTION_CONFIGS, FIELD(metrics), .registry = &lk_registry_metric,
     .help = "what is measured besides the loss", .flags = LK_OPTION_NO_HASH},
    {"optimizer", LK_OPTION_CONFIG, FIELD(optimizer), .registry = &lk_registry_optimizer,
     .flags = LK_OPTION_REQUIRED, .help = "how parameters follow their gradients"},
    {0}};
#undef FIELD

const lk_descriptor lk__section_experiment = {
    "experiment",
    "the keys of an experiment, besides data, model, train, phases, pieces and parallel",
    "`data` is a format with its options, and with those of the loader in the same map. `model` is "
    "a list of layers, or a named model.",
    experiment_options, sizeof(lk_experiment)};

#define FIELD(member) offsetof(lk_train_options, member)
static const lk_option train_options[] = {
    {"epochs", LK_OPTION_INT, FIELD(epochs), .def = "1", .min = 0, .max = 1e9,
     .help = "how often each sample is seen; a finished run can be resumed with more",
     .flags = LK_OPTION_NO_HASH},
    {"steps", LK_OPTION_INT, FIELD(steps), .def = "0", .min = 0, .max = 1e15,
     .help = "stop after this many steps; 0: no limit", .flags = LK_OPTION_NO_HASH},
    {"evaluate", LK_OPTION_TEXT, FIELD(evaluate_text), .value = "PERIOD", .def = "1 epoch",
     .help = "how often to evaluate: \"1 epoch\", \"500 steps\", or never",
     .flags = LK_OPTION_NO_HASH},
    {"log", LK_OPTION_TEXT, FIELD(log_text), .value = "PERIOD", .def = "100 steps",
     .help = "how often to write loss and rate: as evaluate", .flags = LK_OPTION_NO_HASH},
    {"output", LK_OPTION_TEXT, FIELD(output), .value = "PATH",
     .help = "folder for metrics, report, weights and checkpoints", .flags = LK_OPTION_NO_HASH},
    {"recompute", LK_OPTION_INT, FIELD(recompute), .value = "N", .def = "0", .min = 0, .max = 1e6,
     .help = "cut the model, also within blocks, into segments of about 1/N of its values, which "
             "backward computes again instead of keeping them: less memory, more time, the same "
             "bits; 0: none",
     .flags = LK_OPTION_NO_HASH},
    {"resume", LK_OPTION_FLAG, FIELD(resume), .def = "false",
     .help = "go on from the newest checkpoint of this run, if there is one",
     .flags = LK_OPTION_NO_HASH},
    {0}};
#undef FIELD

const lk_descriptor lk__section_train = {"train", "how long to train, and what to keep of it", NULL,
                                         train_options, sizeof(lk_train_options)};

static const lk_option checkpoint_options[] = {
    {"every", LK_OPTION_TEXT, offsetof(lk_checkpoint_options, every_text), .value = "PERIOD",
     .def = "1 epoch", .help = "how often to save: \"1 epoch\", \"500 steps\", or never"},
    {"keep", LK_OPTION_INT, offsetof(lk_checkpoint_options, keep), .def = "3", .min = 0, .max = 1e9,
     .help = "how many of the newest to keep, at least 2; 0: all"},
    {"folder", LK_OPTION_TEXT, offsetof(lk_checkpoint_options, folder), .value = "PATH",
     .help = "where they are; if it is not given, `checkpoints` in the output folder, and none are "
             "saved if there is neither"},
    {"on_error", LK_OPTION_CHOICE, offsetof(lk_checkpoint_options, on_error), .def = "warn",
     .choices = "warn stop",
     .help =
         "what to do when one, or another file of the run, cannot be written: warn, train on and "
         "try again, with status 1 if it is missing at the end; or stop"},
    {"wait", LK_OPTION_FLAG, offsetof(lk_checkpoint_options, wait), .def = "false",
     .help = "let training wait until a checkpoint is on disk, instead of writing it meanwhile"},
    {"replica_sets", LK_OPTION_TEXT, offsetof(lk_checkpoint_options, replica_sets),
     .value = "RANKS",
     .help =
         "sets of ranks, such as \"0-3;4-7\", of which the lowest rank writes and reads for all; "
         "ranks that are not named are one more set.  If it is not given, each rank that sees "
         "the folder writes a share"},
    {0}};

const lk_descriptor lk__section_checkpoint = {"train.checkpoint", "saving what is needed to go on",
                                              NULL, checkpoint_options,
                                              sizeof(lk_checkpoint_options)};

static const lk_option early_stop_options[] = {
    {"metric", LK_OPTION_TEXT, offsetof(lk_early_stop_options, metric), .value = "NAME",
     .def = "loss", .help = "what to look at: loss, or one of the metrics"},
    {"patience", LK_OPTION_INT, offsetof(lk_early_stop_options, patience), .def = "0", .min = 0,
     .max = 1e9, .help = "evaluations without progress after which to stop; 0: never"},
    {"change", LK_OPTION_REAL, offsetof(lk_early_stop_options, change), .def = "0", .min = 0,
     .max = 1e30, .help = "what counts as progress must be better by more than this"},
    {0}};

const lk_descriptor lk__section_early_stop = {"train.early_stop", "stopping when nothing improves",
                                              NULL, early_stop_options,
                                              sizeof(lk_early_stop_options)};

#define FIELD(member) offsetof(lk_pieces_options, member)
static const lk_option pieces_options[] = {
    {"tiles", LK_OPTION_TEXT, FIELD(tiles_text), .value = "NxN", .def = "1",
     .help = "parts of the image along each axis, such as 2x2"},
    {"blocks", LK_OPTION_INT, FIELD(cut.blocks), .def = "1", .min = 1, .max = 4096,
     .help = "parts of the features of wide layers"},
    {"least_tile", LK_OPTION_INT, FIELD(cut.least_tile), .def = "64", .min = 0, .max = 1e9,
     .help = "positions of a tile: layers with smaller ones are not cut into tiles"},
    {"least_block", LK_OPTION_INT, FIELD(cut.least_block), .def = "32", .min = 1, .max = 1e9,
     .help = "features of a block"},
    {0}};
#undef FIELD

const lk_descriptor lk__section_pieces = {
    "pieces", "the finest cut of the work that parallel may deal out, besides the shards of data",
    "Sums over tiles and blocks are joined by a fixed tree, whoever computes which: any layout "
    "that "
    "the pieces allow gives the same bits, and other pieces give others. They are part of the "
    "run's "
    "identity where tiles or blocks are not 1.",
    pieces_options, sizeof(lk_pieces_options)};

#define FIELD(member) offsetof(lk_parallel_options, member)
static const lk_option parallel_options[] = {
    {"data", LK_OPTION_INT, FIELD(data), .def = "0", .min = 0, .max = 1e6,
     .help = "parts of the batch; 0: as many as there are ranks left"},
    {"mode", LK_OPTION_CHOICE, FIELD(mode), .def = "canonical", .choices = "canonical fast",
     .help = "how the parts of a batch are joined: canonical, by a fixed tree over the shards, so "
             "that any number of ranks gives the same bits; fast, the ranks are the shards and are "
             "joined in any order, and the state's hash says so"},
    {"wire", LK_OPTION_CHOICE, FIELD(wire), .def = "dtype", .choices = LK_WIRE_CHOICES,
     .help = "what gradients travel as between ranks: dtype, as they are; f16 or bf16, half the "
             "bytes, added in f32, each rank's rounded before and the sum after, which needs mode "
             "fast, and the state's hash says so"},
    {"update", LK_OPTION_CHOICE, FIELD(update), .def = "auto", .choices = "auto each shared",
     .help =
         "who updates the parameters: each rank its own copy, or the ranks of a node one shared "
         "copy, a share each; auto: shared on one node where the optimizer allows it, unless the "
         "copies of all ranks take less than 1 MiB"},
    {"overlap", LK_OPTION_CHOICE, FIELD(overlap), .def = "auto", .choices = "auto no yes",
     .help = "whether gradients travel while backward goes on; auto: between several nodes"},
    {"bucket_mib", LK_OPTION_REAL, FIELD(bucket_mib), .value = "MIB", .def = "1", .min = 0,
     .max = 1e6, .help = "size of the parts in which gradients travel then"},
    {"double_buffering", LK_OPTION_FLAG, FIELD(double_buffering),
     .help =
         "gradients travel while the next step is computed, so that each update follows those of "
         "the step before and the first step moves nothing; another training, which the state's "
         "hash says, but the same on any number of ranks"},
    {"spatial", LK_OPTION_TEXT, FIELD(spatial_text), .value = "NxN",
     .help = "parts of the image along each axis, such as 2x2; at most the tiles of pieces"},
    {"features", LK_OPTION_INT, FIELD(features), .def = "1", .min = 1, .max = 1e6,
     .help = "parts of wide layers; at most the blocks of pieces"},
    {"stages", LK_OPTION_INT, FIELD(stages), .def = "1", .min = 1, .max = 1e6,
     .help = "parts of the model, one behind the other, each of which has some of its layers"},
    {"schedule", LK_OPTION_CHOICE, FIELD(schedule), .def = "1f1b", .choices = LK_PIPELINE_CHOICES,
     .help =
         "in what order micro-batches go through the stages: 1f1b, as many under way as there "
         "are stages; gpipe, all forward and then all backward; zb1p, gradients of weights fill "
         "the gaps (docs/guide/pipelines.md)"},
    {"micro_batch", LK_OPTION_INT, FIELD(micro_batch), .value = "SHARDS", .def = "0", .min = 0,
     .max = 1 << 30,
     .help = "shards of a micro-batch, a power of two; 0: as many as leave enough micro-batches to "
             "fill the stages"},
    {"lag", LK_OPTION_TEXT, FIELD(lag_text), .value = "N", .def = "auto",
     .help = "only with zb1p, by how many micro-batches gradients of weights may come later: auto, "
             "what "
             "takes about no memory; full, what fills most gaps; or a number"},
    {"recompute", LK_OPTION_FLAG, FIELD(recompute),
     .help = "a stage keeps nothing of a micro-batch but what came in, and computes the rest again "
             "for backward"},
    {"devices", LK_OPTION_NAMES, FIELD(devices), .value = "DEVICE,...",
     .help =
         "sets of cores of each process, such as [cpu:0, cpu:1], that share its part of the "
         "batch and one copy of the weights (docs/guide/devices.md); with fewer than two there is "
         "nothing to share"},
    {0}};
#undef FIELD

const lk_descriptor lk__section_parallel = {
    "parallel",
    "who computes what; never changes the bits, but that mode fast gives them up and double "
    "buffering "
    "follows other gradients",
    "Ranks are started by mpirun, srun or lockstep run; `data` times the parts of `spatial` times "
    "`features` times `stages` says how many there must be.",
    parallel_options, sizeof(lk_parallel_options)};

lk_short_string lk_parallel_marks(const lk_parallel_options *p)
{
    lk_short_string out;
    const char *word[] = {p->mode == LK_REDUCTION_FAST ? "fast" : "",
                          p->wire != LK_WIRE_DTYPE ? lk_wire_name((lk_wire)p->wire) : "",
                          p->double_buffering ? "double_buffering" : ""};
    size_t n = 0;
    out.s[0] = '\0';
    for (size_t i = 0; i < sizeof word / sizeof word[0]; i++)
        if (*word[i])
            n += (size_t)snprintf(out.s + n, sizeof out.s - n, "%s%s", n ? " " : "", word[i]);
    return out;
}

static const lk_descriptor *section_at(int i)
{
    static const lk_descriptor *const sections[] = {
        &lk__section_experiment, &lk_loader_descriptor,   &lk__section_train,
        &lk__section_checkpoint, &lk__section_early_stop, &lk__section_phase,
        &lk__section_pieces,     &lk__section_parallel};
    return i < (int)(sizeof sections / sizeof sections[0]) ? sections[i] : NULL;
}

const lk_registry lk_registry_section = {.name = "section",
                                         .plural = "sections",
                                         .summary = "the parts of an experiment file",
                                         .at = section_at};

/* A whole number of at most nine digits at *text, which moves behind it; false if there is none. */
static bool read_number(const char **text, int64_t *out)
{
    size_t digits = strspn(*text, "0123456789");
    if (digits == 0 || digits > 9 || **text == '0')
        return false;
    *out = strtoll(*text, NULL, 10);
    *text += digits;
    return true;
}

bool lk__grid_read(const char *text, lk_option_ints *out)
{
    out->n = 0;
    for (;; text++) {
        if (out->n == 3 || !read_number(&text, &out->item[out->n]))
            return false;
        out->n++;
        if (*text != 'x')
            return *text == '\0' && out->item[out->n - 1] <= 1000000;
    }
}
