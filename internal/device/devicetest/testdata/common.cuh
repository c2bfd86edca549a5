// What the test kernels share. Plain clang compiles them without NVIDIA's
// headers; build.sh has the command.
#pragma once

#define KERNEL extern "C" __attribute__((global)) void
#define SHARED __attribute__((shared))
using u32 = unsigned int;
using u64 = unsigned long long;

__attribute__((device)) inline u32 threadIndex() {
  return __nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() + __nvvm_read_ptx_sreg_tid_x();
}
__attribute__((device)) inline u32 threads() { return __nvvm_read_ptx_sreg_nctaid_x() * __nvvm_read_ptx_sreg_ntid_x(); }
