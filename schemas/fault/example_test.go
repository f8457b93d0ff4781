package fault_test

import (
	"errors"
	"fmt"

	"latentbeam/schemas/fault"
)

// The class of an error says what the job does next, and at its end the exit code.
func Example() {
	err := fmt.Errorf("decode the frames: %w", fault.Retry(errors.New("the device was busy")))
	fmt.Println(fault.ClassOf(err))
	fmt.Println(fault.ExitCode(fault.TryAgain(errors.New("the bucket answers 503"))))
	fmt.Println(fault.ExitCode(fault.Usage(errors.New("no such preset"))))
	// Output:
	// retry
	// 75
	// 2
}
