package weights

import "fmt"

// Within checks a number of a config.json, by its name: it has to be 1 to most.
func Within(name string, value, most int) error {
	if value < 1 || value > most {
		return fmt.Errorf("%s is %d, must be 1 to %d", name, value, most)
	}
	return nil
}
