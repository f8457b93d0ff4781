package deploy

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// kind is what every document says of itself.
type kind struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// documents splits a file.
func documents(t *testing.T, file string) (docs [][]byte) {
	t.Helper()
	data, err := os.ReadFile("kubernetes/" + file)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Split(data, []byte("\n---\n"))
}

// decode reads a document into the type of its kind. A key that the type does not have is an error.
func decode(t *testing.T, doc []byte) any {
	t.Helper()
	var k kind
	if err := yaml.Unmarshal(doc, &k); err != nil {
		t.Fatal(err)
	}
	var into any
	switch k {
	case kind{"v1", "ConfigMap"}:
		into = &corev1.ConfigMap{}
	case kind{"v1", "Service"}:
		into = &corev1.Service{}
	case kind{"apps/v1", "Deployment"}:
		into = &appsv1.Deployment{}
	case kind{"batch/v1", "Job"}:
		into = &batchv1.Job{}
	case kind{"batch/v1", "CronJob"}:
		into = &batchv1.CronJob{}
	default:
		t.Fatalf("%+v: no type for it", k)
	}
	if err := yaml.UnmarshalStrict(doc, into); err != nil {
		t.Fatalf("%+v: %v", k, err)
	}
	return into
}

func TestManifests(t *testing.T) {
	for _, file := range []string{"job.yaml", "cronjob.yaml", "flink-jobserver.yaml"} {
		for _, doc := range documents(t, file) {
			switch d := decode(t, doc).(type) {
			case *batchv1.Job:
				checkIndexed(t, d.Spec)
				checkPod(t, d.Spec.Template.Spec)
			case *appsv1.Deployment:
				if !maps.Equal(d.Spec.Selector.MatchLabels, d.Spec.Template.Labels) {
					t.Errorf("it looks for %v and makes %v", d.Spec.Selector.MatchLabels, d.Spec.Template.Labels)
				}
			case *batchv1.CronJob:
				if d.Spec.ConcurrencyPolicy != batchv1.ForbidConcurrent {
					t.Error("two runs at once on one output")
				}
				checkPod(t, d.Spec.JobTemplate.Spec.Template.Spec)
			}
		}
	}
	if err := yaml.UnmarshalStrict([]byte("kind: Job\nspec: {completion: 4}"), &batchv1.Job{}); err == nil {
		t.Error("a slip in a key is not found")
	}
}

// checkIndexed: the program is told how many shards there are, and a policy needs what Kubernetes asks for.
func checkIndexed(t *testing.T, s batchv1.JobSpec) {
	t.Helper()
	env := s.Template.Spec.Containers[0].Env
	at := slices.IndexFunc(env, func(e corev1.EnvVar) bool { return e.Name == "JOB_COMPLETIONS" })
	if at < 0 || env[at].Value != strconv.Itoa(int(*s.Completions)) || *s.CompletionMode != batchv1.IndexedCompletion {
		t.Errorf("%d completions, %s, %+v", *s.Completions, *s.CompletionMode, env)
	}
	if s.BackoffLimitPerIndex == nil {
		t.Error("FailIndex needs backoffLimitPerIndex")
	}
}

// checkPod: what the program writes to is there, and it has time to end.
func checkPod(t *testing.T, p corev1.PodSpec) {
	t.Helper()
	c := p.Containers[0]
	if p.RestartPolicy != corev1.RestartPolicyNever {
		t.Error("podFailurePolicy needs restartPolicy: Never")
	}
	if *p.TerminationGracePeriodSeconds <= 60 {
		t.Error("the pod is killed before drain_timeout has passed")
	}
	for _, dir := range []string{"/cache", "/tmp", "/work", "/job"} {
		at := slices.IndexFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == dir })
		if at < 0 {
			t.Errorf("%s is not mounted, and the root is read-only", dir)
			continue
		}
		if !slices.ContainsFunc(p.Volumes, func(v corev1.Volume) bool { return v.Name == c.VolumeMounts[at].Name }) {
			t.Errorf("%s: there is no volume %s", dir, c.VolumeMounts[at].Name)
		}
	}
}

// TestFlinkPods decodes the pod template of the TaskManagers strictly.
func TestFlinkPods(t *testing.T) {
	var d struct {
		Spec struct {
			TaskManager struct {
				PodTemplate map[string]any `json:"podTemplate"`
			} `json:"taskManager"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(documents(t, "flink.yaml")[0], &d); err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(d.Spec.TaskManager.PodTemplate)
	if err != nil {
		t.Fatal(err)
	}
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict(text, &pod); err != nil || len(pod.Spec.Containers) != 1 || pod.Spec.Volumes[0].Image == nil {
		t.Errorf("%v: %+v", err, pod.Spec)
	}
}

// crdVariable names the operator's CRD: META-INF/fabric8/flinkdeployments.flink.apache.org-v1.yml of the Maven artifact
// org.apache.flink:flink-kubernetes-operator-api:1.10.0.
const crdVariable = "LATENTBEAM_FLINK_CRD"

// TestFlinkCRD looks up every key of the FlinkDeployment in the operator's schema.
func TestFlinkCRD(t *testing.T) {
	file := os.Getenv(crdVariable)
	if file == "" {
		t.Skipf("NOT CHECKED against the operator's schema: %s names no file", crdVariable)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema schema `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(data, &crd); err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := yaml.Unmarshal(documents(t, "flink.yaml")[0], &doc); err != nil {
		t.Fatal(err)
	}
	for _, every := range []string{"apiVersion", "kind", "metadata"} { // object has these
		delete(doc, every)
	}
	for _, wrong := range crd.Spec.Versions[0].Schema.OpenAPIV3Schema.check("", doc) {
		// 1.10.0 was made with the Kubernetes of 2024, which knew no volumes of images; TestFlinkPods checks this one.
		if !strings.HasPrefix(wrong, ".spec.taskManager.podTemplate.spec.volumes[0].image:") {
			t.Error(wrong)
		}
	}
	if len(crd.Spec.Versions[0].Schema.OpenAPIV3Schema.check("", map[string]any{"spec": map[string]any{"imag": "x"}})) != 1 {
		t.Error("a slip in a key is not found")
	}
}

// schema is what of a schema this test looks at.
type schema struct {
	Type       string            `json:"type"`
	Properties map[string]schema `json:"properties"`
	Additional any               `json:"additionalProperties"`
	Items      *schema           `json:"items"`
	Enum       []any             `json:"enum"`
	Open       bool              `json:"x-kubernetes-preserve-unknown-fields"`
}

// check returns what a value has that the schema does not allow.
func (s schema) check(path string, v any) (wrong []string) {
	if s.Enum != nil && !slices.Contains(s.Enum, v) {
		wrong = append(wrong, fmt.Sprintf("%s: %v is none of %v", path, v, s.Enum))
	}
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			p, known := s.Properties[key]
			switch {
			case known:
				wrong = append(wrong, p.check(path+"."+key, value)...)
			case s.Additional == nil && !s.Open:
				wrong = append(wrong, path+"."+key+": unknown")
			}
		}
	case []any:
		for i, item := range v {
			if s.Items == nil {
				return append(wrong, path+": no list")
			}
			wrong = append(wrong, s.Items.check(fmt.Sprintf("%s[%d]", path, i), item)...)
		}
	case string:
		if s.Type != "string" && s.Type != "" {
			wrong = append(wrong, path+": a text, want "+s.Type)
		}
	}
	return wrong
}
