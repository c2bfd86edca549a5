// A barrier among ranks that is a kernel of its own, of one block: what orders
// copies and kernels of several ranks where no other kernel does. Everything that
// the stream puts before it is done when it begins, and its release tells the
// peers so; what follows it on the stream comes after what the peers put before
// theirs. Compiled for sm_80.
#include "control.cuh"

// A wait that gave up, in this kernel or in one before, leaves nothing to wait
// for: the barriers behind it end at once, and the timeout is waited for once.
DEVICE void rankBarrier(const Args& a, Stage stage) {
  if (loadAcquire(&a.self->status.stage) != 0) return;
  Barrier barrier(a);
  if (!barrier.sync(stage)) return;
  barrier.commit();
}

#define RANK_BARRIER KERNEL __attribute__((launch_bounds(32))) void

RANK_BARRIER rank_barrier_scattered(Args a) { rankBarrier(a, kScattered); }
RANK_BARRIER rank_barrier_gathered(Args a) { rankBarrier(a, kGathered); }
