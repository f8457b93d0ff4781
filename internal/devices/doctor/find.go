package doctor

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"latentbeam/kernels/cuda"
)

const (
	ffmpegName = "ffmpeg"
	nvmlName   = "NVML"
	ncclName   = "NCCL"
	ltName     = "cublasLt"
)

// wanted lists the optional libraries. Cost of each says what this release does without it.
func wanted() []Library {
	return []Library{
		{Name: "libcuda", Files: []string{"libcuda.so.1"}, Cost: "nothing computes on GPUs"},
		{Name: nvmlName, Files: []string{"libnvidia-ml.so.1"}, Cost: "links, health and temperature of GPUs are unknown"},
		{Name: ltName, Files: []string{"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11"},
			Cost: "none by default: matrix products are this program's own kernels (LATENTBEAM_CUBLASLT=1 wants it)"},
		{Name: "cuDNN", Files: []string{"libcudnn.so.9"}, Cost: "none yet: convolutions take this program's own kernels"},
		{Name: ncclName, Files: []string{"libnccl.so.2"}, Cost: "none on one host; GPUs of several hosts exchange over " +
			"TCP, through host memory"},
		{Name: ffmpegName, Files: []string{"ffmpeg"}, Cost: "of videos only y4m, images and folders of images can be " +
			"read, and files are about twice as large as x264's"},
	}
}

// searched returns the directories that the system's loader and CUDA's installers use.
func searched() []string {
	dirs := []string{"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/lib/x86_64-linux-gnu", "/usr/lib64",
		"/lib64", "/usr/lib", "/usr/local/lib", "/usr/local/cuda/lib64", "/usr/lib/wsl/lib", "/usr/local/nvidia/lib64"}
	for _, pattern := range []string{ // packages that pip installs
		"/usr/lib/python3*/site-packages/nvidia/*/lib", "/usr/local/lib/python3*/*-packages/nvidia/*/lib",
		"/opt/*/lib/python3*/site-packages/nvidia/*/lib"} {
		found, _ := filepath.Glob(pattern)
		dirs = append(dirs, found...)
	}
	return dirs
}

// named are the environment variables that name another file, by library.
var named = map[string]string{"libcuda": "LATENTBEAM_LIBCUDA", ltName: "LATENTBEAM_LIBCUBLASLT",
	ncclName: "LATENTBEAM_LIBNCCL"}

// find looks for libraries in LD_LIBRARY_PATH and dirs, and for ffmpeg in PATH. A variable of named takes precedence.
func find(env func(string) string, dirs []string) []Library {
	dirs = slices.Concat(filepath.SplitList(env("LD_LIBRARY_PATH")), dirs)
	out := wanted()
	for i, l := range out {
		switch {
		case l.Name == ffmpegName:
			out[i].Path, _ = exec.LookPath(l.Files[0])
		case named[l.Name] != "" && env(named[l.Name]) != "":
			out[i].Path = env(named[l.Name])
		default:
			out[i].Path = first(l.Files, dirs)
		}
	}
	return out
}

// opened adds the backend's own report about libraries that it opens.
func opened(list []Library, by []cuda.Library) {
	for i, l := range list {
		for _, o := range by {
			if !slices.ContainsFunc(l.Files, func(file string) bool { return strings.HasPrefix(file, o.Name) }) {
				continue
			}
			switch {
			case o.Path != "":
				list[i].Path, list[i].Version, list[i].Problem = o.Path, o.Version, o.Problem
			case l.Path != "":
				list[i].Problem = o.Problem
				list[i].Path = ""
			}
		}
	}
}

// first returns the path of the first file that exists in one of the directories.
func first(files, dirs []string) string {
	for _, file := range files {
		for _, dir := range dirs {
			name := filepath.Join(dir, file)
			if info, err := os.Stat(name); err == nil && !info.IsDir() && !strings.HasPrefix(dir, ".") {
				return name
			}
		}
	}
	return ""
}
