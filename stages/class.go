package stages

import (
	"encoding/json"
	"fmt"
)

// ClassName is the _class_name of a diffusers configuration. The file has a text, or, for models with custom code, a list of a
// module and a class.
type ClassName string

// UnmarshalJSON reads a text, or the last text of a list.
func (c *ClassName) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*c = ClassName(one)
		return nil
	}
	var list []string
	if err := json.Unmarshal(data, &list); err != nil || len(list) == 0 {
		return fmt.Errorf("_class_name is %.80s: give a text, or a list of texts", data)
	}
	*c = ClassName(list[len(list)-1])
	return nil
}
