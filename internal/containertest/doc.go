//go:build linux

// Package containertest runs programs in unprivileged containers, for tests:
// Charliecloud's ch-run on a root made by debootstrap, and bubblewrap. Neither
// needs a daemon or a set-uid program; each container is a set of namespaces.
//
// Images are what slurm/Singularity.def makes of such a root. Apptainer itself is
// not used: Debian has no package of it. What stands for it (see Apptainer) takes
// the options that Apptainer documents and no others.
//
// A test that cannot have what it needs is skipped, by the name of the package or
// the thing that is missing.
package containertest
