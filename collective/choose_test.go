package collective

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/nvls-allreduce/nvls-allreduce/internal/device"
)

func seen(uuids ...byte) []device.Info {
	var out []device.Info
	for i, u := range uuids {
		out = append(out, device.Info{Ordinal: i, UUID: device.UUID{u}})
	}
	return out
}

func TestChooseDevices(t *testing.T) {
	all := seen(1, 2, 3, 4)
	for _, c := range []struct {
		name    string
		visible [][]device.Info
		share   bool
		chosen  string
		want    string // of the error
	}{
		{"one each", [][]device.Info{all, all, all}, false, "1 2 3", ""},
		{"orders differ", [][]device.Info{seen(1, 2), seen(2, 3, 1)}, false, "1 3", "rank 0 does not see rank 1's GPU-03"},
		{"each sees only its own", [][]device.Info{seen(1), seen(2)}, false, "", "rank 0 does not see rank 1's .*rank 1 does not see rank 0's .*--gpu-bind=none"},
		{"all see one", [][]device.Info{seen(1), seen(1)}, false, "", "ranks 0 and 1 are on one GPU .*every rank sees one GPU only"},
		{"orders that collide", [][]device.Info{seen(1, 2), seen(2, 1)}, false, "", "ranks 0 and 1 are on one GPU .*fewer GPUs are visible"},
		{"one sees more", [][]device.Info{seen(1, 2, 3), seen(1, 2)}, false, "1 2", ""},
		{"one is blind", [][]device.Info{seen(1, 2, 3), seen(1, 3, 2), seen(1, 2, 4)}, false, "", "rank 0 does not see rank 2's GPU-04.*rank 1 does not see rank 2's GPU-04"},
		{"shared", [][]device.Info{seen(1, 2), seen(1, 2), seen(1, 2)}, true, "1 2 1", ""},
		{"none", [][]device.Info{nil, nil}, false, "", "no GPU is visible.*container.*--device sim"},
		{"too few", [][]device.Info{seen(1, 2), seen(1, 2), seen(1, 2)}, false, "", "3 local ranks but only 2 devices.*--share-gpu"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ChooseDevices(c.visible, c.share)
			if c.want != "" {
				if err == nil || !regexp.MustCompile(c.want).MatchString(err.Error()) {
					t.Fatalf("%v, expected %q", err, c.want)
				}
				return
			}
			var names []string
			for _, d := range got {
				names = append(names, fmt.Sprint(d.UUID[0]))
			}
			if err != nil || strings.Join(names, " ") != c.chosen {
				t.Errorf("%v, %v; expected %s", names, err, c.chosen)
			}
		})
	}
}
