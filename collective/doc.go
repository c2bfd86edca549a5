// Package collective is what an all-reduce among the GPUs of one node is made
// of: element types and operations, the group of ranks with their devices,
// symmetric memory, and the interface that packages nvls and fallback implement.
//
// A program joins the world with package mpiboot, opens a Group, allocates
// symmetric Memory, makes an AllReducer of nvls or fallback, prepares calls and
// enqueues them on the group's stream.
//
// Rules:
//
//   - Open, Group.Alloc, Memory.Close, Group.Close, and whatever else is said to
//     be collective, are called by every rank in the same order. Each votes:
//     either all ranks succeed or all get the same error.
//   - Memory is shared by POSIX file descriptors. GPUs are compared by UUID.
//   - Buffers of a call have the same offset in symmetric memory on every rank.
package collective
