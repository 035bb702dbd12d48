/* The public interface of Lockstep.
 *
 * The headers in lockstep/extra/ are not here: kernels on plain arrays, counters, lists and plans, which
 * the command and the curious need.  They are installed as well, but may change in any release.
 *
 * No call raises SIGFPE, whichever floating-point exceptions the host traps, and each leaves the
 * thread's flags, masks and modes as they were; docs/reference/numerics.md says more.
 */
#ifndef LK_LOCKSTEP_H
#define LK_LOCKSTEP_H

#include <lockstep/act.h>
#include <lockstep/autograd.h>
#include <lockstep/batch_norm.h>
#include <lockstep/chain.h>
#include <lockstep/checkpoint.h>
#include <lockstep/coll.h>
#include <lockstep/comm.h>
#include <lockstep/config.h>
#include <lockstep/data.h>
#include <lockstep/ddl.h>
#include <lockstep/device.h>
#include <lockstep/dist.h>
#include <lockstep/dtype.h>
#include <lockstep/features.h>
#include <lockstep/gradcheck.h>
#include <lockstep/hash.h>
#include <lockstep/io.h>
#include <lockstep/iterator.h>
#include <lockstep/log.h>
#include <lockstep/loss.h>
#include <lockstep/make_parallel.h>
#include <lockstep/metric.h>
#include <lockstep/models.h>
#include <lockstep/multi_node.h>
#include <lockstep/nn.h>
#include <lockstep/observe.h>
#include <lockstep/op.h>
#include <lockstep/ops.h>
#include <lockstep/optim.h>
#include <lockstep/option.h>
#include <lockstep/parallel.h>
#include <lockstep/pieces.h>
#include <lockstep/recurrent.h>
#include <lockstep/rng.h>
#include <lockstep/slab.h>
#include <lockstep/slurm.h>
#include <lockstep/status.h>
#include <lockstep/tensor.h>
#include <lockstep/thread.h>
#include <lockstep/tiles.h>
#include <lockstep/topology.h>
#include <lockstep/train.h>
#include <lockstep/version.h>
#include <lockstep/window.h>

#endif /* LK_LOCKSTEP_H */
