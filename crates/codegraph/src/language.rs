//! The languages, and the files that are written in them.

use serde::{Deserialize, Serialize};

/// A programming language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Language {
    /// Bash, and other shells of its family.
    Bash,
    /// C.
    C,
    /// C#.
    CSharp,
    /// C++.
    Cpp,
    /// Go.
    Go,
    /// Java.
    Java,
    /// JavaScript, with JSX.
    JavaScript,
    /// PHP.
    Php,
    /// Python.
    Python,
    /// Ruby.
    Ruby,
    /// Rust.
    Rust,
    /// TypeScript.
    TypeScript,
    /// TypeScript with JSX.
    Tsx,
}

/// Languages whose files can name each other's definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Family {
    /// Shells.
    Bash,
    /// C and C++.
    C,
    /// C#.
    CSharp,
    /// Go.
    Go,
    /// Java.
    Java,
    /// JavaScript and TypeScript.
    JavaScript,
    /// PHP.
    Php,
    /// Python.
    Python,
    /// Ruby.
    Ruby,
    /// Rust.
    Rust,
}

impl Family {
    /// Every family.
    pub(crate) const ALL: [Self; 10] = [
        Self::Bash,
        Self::C,
        Self::CSharp,
        Self::Go,
        Self::Java,
        Self::JavaScript,
        Self::Php,
        Self::Python,
        Self::Ruby,
        Self::Rust,
    ];
}

/// Languages by the extensions of their files.
const EXTENSIONS: [(&str, Language); 36] = [
    ("sh", Language::Bash),
    ("bash", Language::Bash),
    ("bats", Language::Bash),
    ("c", Language::C),
    ("h", Language::C),
    ("cs", Language::CSharp),
    ("cc", Language::Cpp),
    ("cpp", Language::Cpp),
    ("cxx", Language::Cpp),
    ("hh", Language::Cpp),
    ("hpp", Language::Cpp),
    ("hxx", Language::Cpp),
    ("inl", Language::Cpp),
    ("ipp", Language::Cpp),
    ("tpp", Language::Cpp),
    ("go", Language::Go),
    ("java", Language::Java),
    ("js", Language::JavaScript),
    ("jsx", Language::JavaScript),
    ("cjs", Language::JavaScript),
    ("mjs", Language::JavaScript),
    ("php", Language::Php),
    ("phtml", Language::Php),
    ("py", Language::Python),
    ("pyi", Language::Python),
    ("pyw", Language::Python),
    ("rb", Language::Ruby),
    ("rake", Language::Ruby),
    ("gemspec", Language::Ruby),
    ("ru", Language::Ruby),
    ("rs", Language::Rust),
    ("ts", Language::TypeScript),
    ("mts", Language::TypeScript),
    ("cts", Language::TypeScript),
    ("tsx", Language::Tsx),
    ("zsh", Language::Bash),
];

/// Starts of lines that C does not have.
const STARTS_OF_CPP: [&str; 8] =
    ["class ", "namespace ", "template<", "template <", "using ", "public:", "private:", "protected:"];

impl Language {
    /// All languages.
    pub const ALL: [Self; 13] = [
        Self::Bash,
        Self::C,
        Self::CSharp,
        Self::Cpp,
        Self::Go,
        Self::Java,
        Self::JavaScript,
        Self::Php,
        Self::Python,
        Self::Ruby,
        Self::Rust,
        Self::TypeScript,
        Self::Tsx,
    ];

    /// Returns the language of a file by the end of its path.
    pub fn of_path(path: &str) -> Option<Self> {
        let name = path.rsplit('/').next().unwrap_or(path);
        if name == "Rakefile" || name == "Gemfile" {
            return Some(Self::Ruby);
        }
        let (_, extension) = name.rsplit_once('.')?;
        let extension = extension.to_ascii_lowercase();
        EXTENSIONS.iter().find(|(known, _)| *known == extension).map(|(_, language)| *language)
    }

    /// Returns the language of a file, after a look at its content: a header may be one of C++.
    pub(crate) fn refined(self, content: &[u8]) -> Self {
        if self != Self::C {
            return self;
        }
        let head = String::from_utf8_lossy(content.get(..content.len().min(64 << 10)).unwrap_or_default());
        let is_cpp = head.lines().any(|line| {
            let line = line.trim_start();
            STARTS_OF_CPP.iter().any(|start| line.starts_with(start))
        });
        if is_cpp { Self::Cpp } else { self }
    }

    /// Returns the name of the language, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::C => "c",
            Self::CSharp => "csharp",
            Self::Cpp => "cpp",
            Self::Go => "go",
            Self::Java => "java",
            Self::JavaScript => "javascript",
            Self::Php => "php",
            Self::Python => "python",
            Self::Ruby => "ruby",
            Self::Rust => "rust",
            Self::TypeScript => "typescript",
            Self::Tsx => "tsx",
        }
    }

    /// Returns the name of the language as people write it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Bash => "Bash",
            Self::C => "C",
            Self::CSharp => "C#",
            Self::Cpp => "C++",
            Self::Go => "Go",
            Self::Java => "Java",
            Self::JavaScript => "JavaScript",
            Self::Php => "PHP",
            Self::Python => "Python",
            Self::Ruby => "Ruby",
            Self::Rust => "Rust",
            Self::TypeScript | Self::Tsx => "TypeScript",
        }
    }

    /// Returns the languages whose files it can name definitions of.
    pub fn family(self) -> Family {
        match self {
            Self::Bash => Family::Bash,
            Self::C | Self::Cpp => Family::C,
            Self::CSharp => Family::CSharp,
            Self::Go => Family::Go,
            Self::Java => Family::Java,
            Self::JavaScript | Self::TypeScript | Self::Tsx => Family::JavaScript,
            Self::Php => Family::Php,
            Self::Python => Family::Python,
            Self::Ruby => Family::Ruby,
            Self::Rust => Family::Rust,
        }
    }
}

impl Family {
    /// Returns the name of the family, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::C => "c",
            Self::CSharp => "csharp",
            Self::Go => "go",
            Self::Java => "java",
            Self::JavaScript => "javascript",
            Self::Php => "php",
            Self::Python => "python",
            Self::Ruby => "ruby",
            Self::Rust => "rust",
        }
    }

    /// Returns true if values flow between the files of the language as a whole. Otherwise a file needs only
    /// the declarations of the others.
    pub fn is_dynamic(self) -> bool {
        matches!(self, Self::JavaScript | Self::Php | Self::Python | Self::Ruby | Self::Bash)
    }

    /// Returns true if a name without an object can be a member of the class around it.
    pub fn has_implicit_receiver(self) -> bool {
        matches!(self, Self::C | Self::CSharp | Self::Java | Self::Ruby)
    }
}
