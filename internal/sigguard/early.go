//go:build linux

package sigguard

/*
#include <signal.h>

// Until Go's runtime has a handler for them, the system ends the process at
// these signals, and until signal.Notify the runtime drops them: a warning before
// a time limit that comes so early would be lost. Blocked before the runtime
// starts, they wait for signal.Notify, which lets them in.
__attribute__((constructor)) static void hold(void)
{
	sigset_t warnings;
	sigemptyset(&warnings);
	sigaddset(&warnings, SIGUSR1);
	sigaddset(&warnings, SIGUSR2);
	sigprocmask(SIG_BLOCK, &warnings, NULL);
}
*/
import "C"
