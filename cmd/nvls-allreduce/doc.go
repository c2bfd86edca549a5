// Nvls-allreduce measures all-reduce between the GPUs of a node: with NVLink
// multicast (NVLS), with a ring, and over peer mappings, side by side.
//
//	mpirun -np 8 nvls-allreduce --mode nvls-zero-copy,ring -b 8 -e 1G
//	srun -n 8 nvls-allreduce --config compare-all --csv out.csv --plot out.svg
//	nvls-allreduce --np 4 --device sim --config quick
//
// Flags have the names and meaning of nccl-tests where it has the same, and
// override the file or preset of --config, which overrides the defaults.
// "nvls-allreduce doctor" says which modes will work here, and why not the others.
// "nvls-allreduce config" prints what results, and where each value is from.
//
// The exit codes are 0 for success, 1 for an internal fault, 2 for a failed
// device call, 3 for a mode that cannot run here, 4 for a timeout, 6 for wrong
// usage, 7 for wrong data or a missed --min-busbw, and 143 after SIGTERM.
//
// This package holds flags and subcommands only.
package main
