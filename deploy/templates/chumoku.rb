class Chumoku < Formula
  desc "Train, use and explain transformers on your own text, on any CPU"
  homepage "https://github.com/chumoku/chumoku"
  version "@VERSION@"
  license any_of: ["MIT", "Apache-2.0"]

  on_macos do
    on_arm do
      url "https://github.com/chumoku/chumoku/releases/download/v@VERSION@/chumoku-aarch64-apple-darwin.tar.xz"
      sha256 "@SHA256:aarch64-apple-darwin@"
    end
    on_intel do
      url "https://github.com/chumoku/chumoku/releases/download/v@VERSION@/chumoku-x86_64-apple-darwin.tar.xz"
      sha256 "@SHA256:x86_64-apple-darwin@"
    end
  end

  on_linux do
    on_arm do
      url "https://github.com/chumoku/chumoku/releases/download/v@VERSION@/chumoku-aarch64-unknown-linux-musl.tar.xz"
      sha256 "@SHA256:aarch64-unknown-linux-musl@"
    end
    on_intel do
      url "https://github.com/chumoku/chumoku/releases/download/v@VERSION@/chumoku-x86_64-unknown-linux-musl.tar.xz"
      sha256 "@SHA256:x86_64-unknown-linux-musl@"
    end
  end

  def install
    bin.install "chumoku"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/chumoku.bash" => "chumoku"
    fish_completion.install "completions/chumoku.fish"
    zsh_completion.install "completions/_chumoku"
    doc.install "README.md", "README.ja.md", "CHANGELOG.md", "THIRD-PARTY-LICENSES", "sbom.cdx.json"
  end

  test do
    system bin/"chumoku", "train", "--model", "ngrams", "--out", "model"
    assert_match "positive", shell_output("#{bin}/chumoku predict model 'I would buy it again.'")
  end
end
