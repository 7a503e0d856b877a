package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const lifetime = 30 * 24 * time.Hour

// A pair is a certificate with its key, both as PEM.
type pair struct {
	certificate, key []byte
	parsed           *x509.Certificate
	private          *ecdsa.PrivateKey
}

// issue makes a certificate; without an issuer it is an authority that signs itself.
func issue(subject pkix.Name, names []string, addresses []string, issuer *pair) (*pair, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(lifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		DNSNames:     names,
	}
	for _, address := range addresses {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(address))
	}
	parent, signer := template, private
	if issuer == nil {
		template.IsCA, template.BasicConstraintsValid = true, true
		template.KeyUsage |= x509.KeyUsageCertSign
	} else {
		parent, signer = issuer.parsed, issuer.private
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &private.PublicKey, signer)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	key, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, err
	}
	return &pair{
		certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		parsed:      parsed,
		private:     private,
	}, nil
}

// certificates writes FOLDER/pki and the kubeconfigs FOLDER/*.conf with kubeadm's names.
func certificates(arguments []string) error {
	if err := arity(arguments, 4, "FOLDER NODE ADDRESS SERVICE_ADDRESS"); err != nil {
		return err
	}
	folder, node, address, service := arguments[0], arguments[1], arguments[2], arguments[3]
	if err := os.MkdirAll(filepath.Join(folder, "pki"), 0o755); err != nil {
		return err
	}
	authority, err := issue(pkix.Name{CommonName: "kubernetes"}, nil, nil, nil)
	if err != nil {
		return err
	}
	names := []string{node, "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
	files := map[string][]byte{"pki/ca.crt": authority.certificate, "pki/ca.key": authority.key}
	for name, subject := range map[string]pkix.Name{
		"apiserver":                {CommonName: "kube-apiserver"},
		"apiserver-kubelet-client": {CommonName: "kube-apiserver-kubelet-client", Organization: []string{"system:masters"}},
	} {
		made, err := issue(subject, names, []string{address, service, "127.0.0.1"}, authority)
		if err != nil {
			return err
		}
		files["pki/"+name+".crt"], files["pki/"+name+".key"] = made.certificate, made.key
	}
	// Service account tokens are signed with a key of their own.
	signing, err := issue(pkix.Name{CommonName: "service-accounts"}, nil, nil, nil)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(&signing.private.PublicKey)
	if err != nil {
		return err
	}
	files["pki/sa.key"] = signing.key
	files["pki/sa.pub"] = pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	for name, subject := range map[string]pkix.Name{
		"admin":              {CommonName: "kubernetes-admin", Organization: []string{"system:masters"}},
		"kubelet":            {CommonName: "system:node:" + node, Organization: []string{"system:nodes"}},
		"controller-manager": {CommonName: "system:kube-controller-manager"},
		"scheduler":          {CommonName: "system:kube-scheduler"},
		"kube-proxy":         {CommonName: "system:kube-proxy"},
	} {
		made, err := issue(subject, nil, nil, authority)
		if err != nil {
			return err
		}
		files[name+".conf"] = kubeconfig(address, authority, made)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func kubeconfig(address string, authority, user *pair) []byte {
	text := base64.StdEncoding.EncodeToString
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: bed
clusters: [{name: bed, cluster: {server: "https://%s:6443", certificate-authority-data: %s}}]
users: [{name: bed, user: {client-certificate-data: %s, client-key-data: %s}}]
contexts: [{name: bed, context: {cluster: bed, user: bed}}]
`, address, text(authority.certificate), text(user.certificate), text(user.key))
}
