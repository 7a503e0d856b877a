package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"sort"
	"strings"
)

// image writes an archive that `ctr image import` takes: one layer with the given files, every one executable,
// and the command that a container runs if its pod names none.
// A source that begins with @ is a symbolic link to what follows.
func image(arguments []string) error {
	if err := arity(arguments, 4, "NAME OUT COMMAND PATH=FILE..."); err != nil {
		return err
	}
	name, out, command, files := arguments[0], arguments[1], strings.Fields(arguments[2]), arguments[3:]
	layer, err := layer(files)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(layer)
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config":       map[string]any{"Entrypoint": command, "Env": []string{"PATH=/usr/local/bin:/usr/bin:/bin"}},
		"rootfs":       map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(sum[:])}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{name}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return err
	}
	archive := new(bytes.Buffer)
	writer := tar.NewWriter(archive)
	for _, part := range []struct {
		name    string
		content []byte
	}{{"config.json", config}, {"layer.tar", layer}, {"manifest.json", manifest}} {
		if err := add(writer, part.name, 0o644, part.content); err != nil {
			return err
		}
	}
	if err := writer.Close(); err != nil {
		return err
	}
	return os.WriteFile(out, archive.Bytes(), 0o644)
}

// layer returns a tar of the files and of the folders above them.
func layer(files []string) ([]byte, error) {
	content := new(bytes.Buffer)
	writer := tar.NewWriter(content)
	folders := map[string]bool{"tmp": true}
	sources := map[string]string{}
	for _, file := range files {
		target, source, found := strings.Cut(file, "=")
		if !found {
			return nil, fmt.Errorf("%s: PATH=FILE is needed", file)
		}
		target = strings.TrimPrefix(path.Clean(target), "/")
		sources[target] = source
		for folder := path.Dir(target); folder != "."; folder = path.Dir(folder) {
			folders[folder] = true
		}
	}
	for _, folder := range sorted(folders) {
		mode := int64(0o755)
		if folder == "tmp" {
			mode = 0o1777
		}
		if err := writer.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: folder + "/", Mode: mode}); err != nil {
			return nil, err
		}
	}
	for _, target := range sorted(sources) {
		source := sources[target]
		if link, found := strings.CutPrefix(source, "@"); found {
			if err := writer.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: target, Linkname: link, Mode: 0o777}); err != nil {
				return nil, err
			}
			continue
		}
		bytes, err := os.ReadFile(source)
		if err != nil {
			return nil, err
		}
		if err := add(writer, target, 0o755, bytes); err != nil {
			return nil, err
		}
	}
	err := writer.Close()
	return content.Bytes(), err
}

func add(writer *tar.Writer, name string, mode int64, content []byte) error {
	if err := writer.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content))}); err != nil {
		return err
	}
	_, err := io.Copy(writer, bytes.NewReader(content))
	return err
}

func sorted[V any](values map[string]V) []string {
	keys := make([]string, 0, len(values))
	for key := range values {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}
