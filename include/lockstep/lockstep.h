/* The whole public interface of Lockstep.
 *
 * No call raises SIGFPE, whichever floating-point exceptions the host traps, and each leaves the
 * thread's flags, masks and modes as they were; docs/numerics.md says more.
 */
#ifndef LK_LOCKSTEP_H
#define LK_LOCKSTEP_H

#include <lockstep/alloc.h>
#include <lockstep/autograd.h>
#include <lockstep/checked.h>
#include <lockstep/checkpoint.h>
#include <lockstep/clock.h>
#include <lockstep/coll.h>
#include <lockstep/comm.h>
#include <lockstep/config.h>
#include <lockstep/conv.h>
#include <lockstep/crc32c.h>
#include <lockstep/data.h>
#include <lockstep/ddl.h>
#include <lockstep/dist.h>
#include <lockstep/dist_check.h>
#include <lockstep/dtype.h>
#include <lockstep/gemm.h>
#include <lockstep/gradcheck.h>
#include <lockstep/half.h>
#include <lockstep/hash.h>
#include <lockstep/io.h>
#include <lockstep/isa.h>
#include <lockstep/log.h>
#include <lockstep/loss.h>
#include <lockstep/map.h>
#include <lockstep/metric.h>
#include <lockstep/models.h>
#include <lockstep/nn.h>
#include <lockstep/op.h>
#include <lockstep/ops.h>
#include <lockstep/optim.h>
#include <lockstep/option.h>
#include <lockstep/parallel.h>
#include <lockstep/pieces.h>
#include <lockstep/pool.h>
#include <lockstep/reduce.h>
#include <lockstep/rng.h>
#include <lockstep/slab.h>
#include <lockstep/status.h>
#include <lockstep/suggest.h>
#include <lockstep/tensor.h>
#include <lockstep/text.h>
#include <lockstep/thread.h>
#include <lockstep/topology.h>
#include <lockstep/train.h>
#include <lockstep/version.h>

#endif /* LK_LOCKSTEP_H */
