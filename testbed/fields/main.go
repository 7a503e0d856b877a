// Prints the fields of further kinds as core/kinds/data/further-fields.yaml has them: names, types and protobuf numbers from
// the Go types of the pinned Kubernetes, how lists merge from their tags and from the schemas of server-side apply.
//
//	cd testbed && go run ./fields ../core/kinds/data "$(go list -f '{{.Dir}}' k8s.io/client-go/applyconfigurations/internal)/internal.go"
//
// The first argument is the folder with the other data files: what they define is not printed again.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"sort"
	"strings"

	admission "k8s.io/api/admissionregistration/v1"
	apps "k8s.io/api/apps/v1"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	certificates "k8s.io/api/certificates/v1"
	core "k8s.io/api/core/v1"
	flowcontrol "k8s.io/api/flowcontrol/v1"
	networking "k8s.io/api/networking/v1"
	node "k8s.io/api/node/v1"
	rbac "k8s.io/api/rbac/v1"
	resource "k8s.io/api/resource/v1"
	scheduling "k8s.io/api/scheduling/v1"
	storage "k8s.io/api/storage/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/yaml"
)

// The kinds, by the apiVersion of their objects.
var roots = []struct {
	version string
	objects []any
}{
	{"v1", []any{core.Endpoints{}, core.LimitRange{}, core.PersistentVolume{}, core.PersistentVolumeClaim{}, core.PodTemplate{},
		core.ReplicationController{}, core.ResourceQuota{}}},
	{"admissionregistration.k8s.io/v1", []any{admission.MutatingAdmissionPolicy{}, admission.MutatingAdmissionPolicyBinding{},
		admission.MutatingWebhookConfiguration{}, admission.ValidatingAdmissionPolicy{}, admission.ValidatingAdmissionPolicyBinding{},
		admission.ValidatingWebhookConfiguration{}}},
	{"apiextensions.k8s.io/v1", []any{apiextensions.CustomResourceDefinition{}}},
	{"apps/v1", []any{apps.ControllerRevision{}, apps.DaemonSet{}, apps.StatefulSet{}}},
	{"authentication.k8s.io/v1", []any{authentication.TokenReview{}}},
	{"authorization.k8s.io/v1", []any{authorization.LocalSubjectAccessReview{}, authorization.SubjectAccessReview{}}},
	{"apiregistration.k8s.io/v1", []any{apiregistration.APIService{}}},
	{"autoscaling/v1", []any{autoscalingv1.HorizontalPodAutoscaler{}}},
	{"autoscaling/v2", []any{autoscaling.HorizontalPodAutoscaler{}}},
	{"batch/v1", []any{batch.CronJob{}, batch.Job{}}},
	{"certificates.k8s.io/v1", []any{certificates.CertificateSigningRequest{}}},
	{"flowcontrol.apiserver.k8s.io/v1", []any{flowcontrol.FlowSchema{}, flowcontrol.PriorityLevelConfiguration{}}},
	{"networking.k8s.io/v1", []any{networking.IPAddress{}, networking.Ingress{}, networking.IngressClass{}, networking.NetworkPolicy{},
		networking.ServiceCIDR{}}},
	{"node.k8s.io/v1", []any{node.RuntimeClass{}}},
	{"rbac.authorization.k8s.io/v1", []any{rbac.ClusterRole{}, rbac.ClusterRoleBinding{}, rbac.Role{}, rbac.RoleBinding{}}},
	{"resource.k8s.io/v1", []any{resource.DeviceClass{}, resource.ResourceClaim{}, resource.ResourceClaimTemplate{}, resource.ResourceSlice{}}},
	{"scheduling.k8s.io/v1", []any{scheduling.PriorityClass{}}},
	{"storage.k8s.io/v1", []any{storage.CSIDriver{}, storage.CSINode{}, storage.CSIStorageCapacity{}, storage.StorageClass{},
		storage.VolumeAttachment{}, storage.VolumeAttributesClass{}}},
}

// Types that the model has as such.
var special = map[string]string{
	"k8s.io/apimachinery/pkg/apis/meta/v1.Time":                                             "Time",
	"k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime":                                        "MicroTime",
	"k8s.io/apimachinery/pkg/api/resource.Quantity":                                         "Quantity",
	"k8s.io/apimachinery/pkg/util/intstr.IntOrString":                                       "IntOrString",
	"k8s.io/apimachinery/pkg/runtime.RawExtension":                                          "any",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSON":                         "any",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrArray":       "JSONSchemaProps|[JSONSchemaProps]",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrBool":        "JSONSchemaProps|bool",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrStringArray": "JSONSchemaProps|[string]",
}

type printer struct {
	defined  map[string]bool // by the other files
	queue    []reflect.Type
	seen     map[reflect.Type]bool
	messages []string
	lists    []string
	structs  []string
	required []string
	applied  map[string]relation
}

func main() {
	p := printer{defined: map[string]bool{}, seen: map[reflect.Type]bool{}, applied: relations()}
	for _, file := range []string{"protobuf-fields.yaml", "more-fields.yaml"} {
		text, err := os.ReadFile(filepath.Join(os.Args[1], file))
		check(err)
		for _, match := range regexp.MustCompile(`(?m)^  ([A-Za-z.]+):$`).FindAllStringSubmatch(string(text), -1) {
			p.defined[match[1]] = true
		}
	}
	fmt.Println("# Further kinds of Kubernetes v1.36, in the form of protobuf-fields.yaml and more-fields.yaml. Made by testbed/fields; do not edit.")
	fmt.Println("kinds:")
	for _, root := range roots {
		for _, object := range root.objects {
			t := reflect.TypeOf(object)
			fmt.Printf("  %s/%s: %s\n", root.version, t.Name(), p.name(t))
		}
	}
	for len(p.queue) > 0 {
		next := p.queue[0]
		p.queue = p.queue[1:]
		p.message(next)
	}
	for _, section := range []struct {
		name  string
		lines []string
	}{{"messages", p.messages}, {"lists", p.lists}, {"structs", p.structs}, {"required", p.required}} {
		fmt.Println(section.name + ":")
		for _, line := range section.lines {
			fmt.Println("  " + line)
		}
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Returns the name of a message and sees to it that it is printed unless another file has it.
func (p *printer) name(t reflect.Type) string {
	name := t.Name()
	parts := strings.Split(t.PkgPath(), "/")
	group := parts[len(parts)-2]
	if t.PkgPath() == "k8s.io/api/autoscaling/v1" {
		group = "autoscalingv1"
	}
	// Other files name the types of several groups without their group.
	plain := group == "core" || group == "meta" || group == "apiextensions"
	ours := map[string]bool{"apps": true, "authentication": true, "authorization": true, "policy": true}
	shared := p.defined[name] && (plain || ours[group])
	// The port of an EndpointSlice has this name too, and other numbers.
	if group == "core" && name == "EndpointPort" {
		plain, shared = false, false
	}
	if !plain && !shared {
		name = group + "." + name
	}
	if !shared && !p.seen[t] {
		p.seen[t] = true
		p.queue = append(p.queue, t)
	}
	return name
}

func (p *printer) kind(t reflect.Type) string {
	if name := special[t.PkgPath()+"."+t.Name()]; name != "" {
		return name
	}
	switch t.Kind() {
	case reflect.Pointer:
		return strings.TrimSuffix(p.kind(t.Elem()), "?") + "?"
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	case reflect.Int32:
		return "int32"
	case reflect.Int64:
		return "int64"
	case reflect.Float64:
		return "double"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return "[" + strings.TrimSuffix(p.kind(t.Elem()), "?") + "]"
	case reflect.Map:
		return "{" + strings.TrimSuffix(p.kind(t.Elem()), "?") + "}"
	case reflect.Struct:
		return p.name(t)
	}
	check(fmt.Errorf("no type for %v", t))
	return ""
}

// Prints a message: its fields, then how they merge.
func (p *printer) message(t reflect.Type) {
	name := p.name(t)
	p.messages = append(p.messages, name+":")
	var required []string
	for i := range t.NumField() {
		field := t.Field(i)
		tag := field.Tag.Get("json")
		jsonName, options, _ := strings.Cut(tag, ",")
		if field.Name == "TypeMeta" || jsonName == "-" {
			continue
		}
		number := "-"
		if parts := strings.Split(field.Tag.Get("protobuf"), ","); len(parts) > 1 {
			number = parts[1]
		}
		kind := p.kind(field.Type)
		inline := strings.Contains(options, "inline")
		if inline {
			jsonName = "+"
		}
		p.messages = append(p.messages, fmt.Sprintf("  %s: %q", number, jsonName+": "+kind))
		if inline {
			continue
		}
		if !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero") && (kind == "string" || strings.HasPrefix(kind, "[")) {
			required = append(required, jsonName)
		}
		if rule := p.rule(t, field, jsonName); rule != "" {
			p.lists = append(p.lists, name+"."+jsonName+": "+rule)
		}
	}
	if len(required) > 0 {
		p.required = append(p.required, name+": "+strings.Join(required, " "))
	}
	if p.applied[openapi(t)].atomic {
		p.structs = append(p.structs, name+": atomic")
	}
}

func openapi(t reflect.Type) string {
	path := strings.TrimPrefix(t.PkgPath(), "k8s.io/")
	return "io.k8s." + strings.ReplaceAll(path, "/", ".") + "." + t.Name()
}

// Returns how a field merges, in the words of more-fields.yaml.
func (p *printer) rule(t reflect.Type, field reflect.StructField, name string) string {
	strategies := strings.Split(field.Tag.Get("patchStrategy"), ",")
	key := field.Tag.Get("patchMergeKey")
	var words []string
	applied := p.applied[openapi(t)].fields[name]
	keys := strings.Join(applied.keys, " ")
	for _, strategy := range strategies {
		switch {
		case strategy == "merge" && key != "":
			words = append(words, "merge "+key)
		case strategy == "retainKeys":
			words = append(words, "retainKeys")
		}
	}
	merged := len(words) > 0 && strings.HasPrefix(words[0], "merge")
	switch {
	case applied.set:
		words = append(words, "set")
	case merged && keys != key && keys != "":
		words[len(words)-1] += "; apply: " + keys
	case merged && keys == "":
		words[len(words)-1] += "; apply: atomic"
	case !merged && keys != "":
		words = append(words, "atomic; apply: "+keys)
	case !merged && applied.atomic:
		words = append(words, "atomic")
	}
	return strings.Join(words, ", ")
}

// How server-side apply sees a type and its fields.
type relation struct {
	atomic, set bool
	keys        []string
	fields      map[string]relation
}

type typeRef struct {
	Named string `json:"namedType"`
	List  *struct {
		Relationship string   `json:"elementRelationship"`
		Keys         []string `json:"keys"`
	} `json:"list"`
	Map *struct {
		Relationship string `json:"elementRelationship"`
	} `json:"map"`
	Relationship string `json:"elementRelationship"`
}

func relations() map[string]relation {
	text, err := os.ReadFile(os.Args[2])
	check(err)
	_, text2, _ := strings.Cut(string(text), "typed.YAMLObject(`")
	body, _, _ := strings.Cut(text2, "`)")
	var schema struct {
		Types []struct {
			Name string `json:"name"`
			Map  *struct {
				Relationship string `json:"elementRelationship"`
				Fields       []struct {
					Name string  `json:"name"`
					Type typeRef `json:"type"`
				} `json:"fields"`
			} `json:"map"`
		} `json:"types"`
	}
	check(yaml.Unmarshal([]byte(body), &schema))
	found := map[string]relation{}
	for _, t := range schema.Types {
		if t.Map == nil {
			continue
		}
		r := relation{atomic: t.Map.Relationship == "atomic", fields: map[string]relation{}}
		for _, field := range t.Map.Fields {
			var f relation
			switch list, object := field.Type.List, field.Type.Map; {
			case list != nil:
				f.set = list.Relationship == "associative" && len(list.Keys) == 0
				f.keys = list.Keys
				sort.Strings(f.keys)
				f.atomic = list.Relationship == "atomic"
			case object != nil:
				f.atomic = object.Relationship == "atomic"
			default:
				f.atomic = field.Type.Relationship == "atomic"
			}
			r.fields[field.Name] = f
		}
		found[t.Name] = r
	}
	return found
}
