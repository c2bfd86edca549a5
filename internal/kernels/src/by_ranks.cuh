// Sums and averages have code for 2, for 3 and 4, and for up to 8 ranks; the
// other operations have the last alone, which is right for any number.
#pragma once

#define ALL_REDUCE KERNEL __attribute__((launch_bounds(512))) void

#define BY_RANKS(Op, CALL)                      \
  if constexpr (!kSame<Op, Sum>) CALL(Op, 8);   \
  else if (a.ranks <= 2) CALL(Op, 2);           \
  else if (a.ranks <= 4) CALL(Op, 4);           \
  else CALL(Op, 8);
