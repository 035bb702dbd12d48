/* The options of a multi-node optimizer, which all ranks must give alike: they decide what ranks talk about,
 * and what each makes of it.
 */
#include "coll/traits.h"
#include "multinode/multi_node_optimizer.h"

#include <stddef.h>

#define FIELD(member) offsetof(lk_multi_node_options, member)
static const lk_option multi_node_options[] = {
    {"communicator", LK_OPTION_TEXT, FIELD(communicator), .value = "NAME",
     .help = "algorithm of the allreduce, by its name or as ChainerMN calls a communicator of that "
             "kind; none: by cost"},
    {"double_buffering", LK_OPTION_FLAG, FIELD(double_buffering),
     .help = "gradients travel until the next update, and are followed one update late"},
    {"zero_fill", LK_OPTION_FLAG, FIELD(zero_fill), .def = "true",
     .help = "a gradient that a rank does not have counts as zeros; otherwise all ranks must have "
             "the same ones, and parameters without any stay as they are"},
    {"mean_of_means", LK_OPTION_FLAG, FIELD(mean_of_means),
     .help = "ranks count alike, whatever their samples"},
    {"wire", LK_OPTION_CHOICE, FIELD(wire), .def = "dtype", .choices = LK_WIRE_CHOICES,
     .help = "what gradients travel as: dtype, as they are; f16 or bf16, added in f32"},
    {"accumulate", LK_OPTION_INT, FIELD(accumulate), .def = "1", .min = 1, .max = 1e9,
     .help = "updates whose gradients are added up on each rank before they travel"},
    {0}};
#undef FIELD

const lk_descriptor lk_multi_node_descriptor = {
    .name = "multi_node_optimizer",
    .summary = "an optimizer around an optimizer, for gradients of several ranks",
    .options = multi_node_options,
    .options_size = sizeof(lk_multi_node_options)};

static lk_status options_take(lk_multi_node_optimizer *o, const lk__mn_settings *settings)
{
    LK_TRY(lk_arena_new(&o->arena));
    if (!settings->options)
        LK_TRY(lk_options_parse(&lk_multi_node_descriptor, settings->text, o->arena, &o->options));
    else
        o->options = *settings->options;
    if (o->options.accumulate == 0)
        o->options.accumulate = 1;
    LK_CHECK(o->options.accumulate > 0, LK_EINVAL, "accumulate is %lld",
             (long long)o->options.accumulate);
    LK_CHECK(o->options.wire >= LK_WIRE_DTYPE && o->options.wire <= LK_WIRE_BF16, LK_EINVAL,
             "%d is no lk_wire", o->options.wire);
    return LK_OK;
}

lk_status lk__mn_options_take(lk_multi_node_optimizer *o, lk_comm *comm,
                              const lk__mn_settings *settings)
{
    LK_TRY(lk_agree(comm, options_take(o, settings)));
    const lk_multi_node_options *p = &o->options;
    const lk__trait trait[] = {
        {"another communicator", (int64_t)lk__algorithm_hash(p->communicator), .is_hash = true},
        {"double_buffering", p->double_buffering, .is_hash = false},
        {"zero_fill", p->zero_fill, .is_hash = false},
        {"mean_of_means", p->mean_of_means, .is_hash = false},
        {"another wire", p->wire, .is_hash = true},
        {"accumulate", p->accumulate, .is_hash = false}};
    return LK_TRACE(lk__traits_compare(comm, trait, sizeof trait / sizeof *trait, LK_ESTATE,
                                       "give the same options"));
}
