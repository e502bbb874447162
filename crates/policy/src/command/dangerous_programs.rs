//! Programs whose first words reveal too little: they have options, a language or a purpose through
//! which they run another program, write a file of any name, or connect to other machines. A listed
//! prefix covers their commands only in a form that the tables know, or word by word.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::programs::{WRAPPERS, base_name, is_interpreter};
use super::table::has_table;

/// Programs of this kind without a table (<https://gtfobins.github.io> and the manuals).
const PROGRAMS: &str = "
    7z aa-exec ab alpine ansible ansible-playbook ansible-test aoss apache2ctl apt apt-get ar aria2c arj arp as ascii-xfr ascii85
    ash aspell asterisk at atobm autoconf autoheader autoreconf aws axel base58 basenc basez batcat bat bc bconsole bpftrace bridge
    bundle bundler busctl byebug bzip2 c89 c99 cabal capsh cdist certbot check_by_ssh check_cups check_log check_memory check_raid
    check_ssl_cert check_statusfile choom clamscan cobc composer cowsay cowthink cpan cpio cpulimit crash crontab csplit csvtool
    cupsfilter dash date dc dd debconf debugfs deno dialog dig distcc dmesg dmidecode dmsetup dnf doas docker-compose dos2unix
    dosbox dotnet dpkg dstat dvips easy_install easyrsa eb ed efax elinks elvish emacs emacsclient enscript eqn espeak ex exiftool
    expect facter fish flock fping ftp fzf gawk gcloud gcore gdb gem genie genisoimage ghc ghci gimp ginsh git-shell gnuplot gpg
    grc gtester guix gzexe heroku hexedit highlight hping3 http https iconv iftop install ionice ip irb ispell iptables
    jjs journalctl julia k3s kakoune ksh ksshell kubectl last lastb latex latexmk ld ldap ld.so less lftp link links litecoin ln
    logrotate logsave look lp ltrace lua lualatex luatex lwp-download lwp-request lynx m4 mail mailx man mariadb mawk microdnf
    minicom mongo mongosh more mosh mosquitto mount msfconsole msgattrib msgcat msgconv msgfilter msgmerge msguniq mtr multitime
    mutt mysql mysqldump nano nasm nawk nc ncat ncdu ncftp neofetch netcat nft nmap nohup npx nroff nsenter nslookup nsupdate nvim
    octave openssl openvpn openvt opkg p4 pandoc parted pax pdb pdflatex pdftex pdksh perf perlbug pexec pg pg_dump php pic pico
    pidstat pip2 pkexec pkg pr pry psftp psql ptx puppet pwsh rake rbash rc redis-cli redcarpet restic rescomp rlogin rlwrap rpm
    rpmdb rpmquery rpmverify rsync rsyslogd ruby run-mailcap run-parts rview rvim salt sash sassc scanmem scp screen script
    scrot service setcap setfacl sftp sg shutdown slsh smbclient snap socat soelim softlimit source-highlight split sqlite3
    sqlmap ss ssh ssh-agent ssh-keygen ssh-keyscan sshfs sshpass start-stop-daemon su sudoedit svn svnadmin sysctl systemctl
    systemd-resolve systemd-run tasksh tbl tclsh tcpdump tcsh tdbtool telnet terraform tex tftp tic timedatectl tmate tmux torify
    torsocks troff tshark tsx ts-node ul umount unattended-upgrade uudecode uuencode vagrant vi view vigr vim vimdiff vipw virsh
    visudo volatility w3m wall watch wget2 wireshark wish x86_64 xdg-open xdg-user-dir xdotool xelatex xetex xh xmodmap xmore xpad
    xsltproc yash yum zathura zsh zsoelim zypper reboot halt poweroff init kill killall pkill chown chgrp chattr useradd usermod passwd mkfs mke2fs fdisk mkswap swapon insmod
    modprobe iptables-save nfs at batch dbus-send gdbus busctl loginctl machinectl hostnamectl localectl gsettings dconf
    eval source . exec trap alias builtin coproc enable shopt declare typeset local export readonly unset read mapfile readarray
    let getopts bind complete compgen compopt fc history jobs bg fg disown suspend ulimit umask pushd popd dirs caller times
    logout [[ (( shred xz unxz lzma unlzma xzcat zstd unzstd brotli compress uncompress most ack ugrep unix2dos mac2unix patch dtach
    logger sendmail ldconfig ldd strip mkfifo mknod helm kustomize minikube kind skaffold tilt flux argocd vault consul nomad packer
    aws gsutil bq az doctl flyctl fly vercel netlify wrangler firebase heroku sam serverless pulumi cdk act circleci
    rclone restic borg duplicity s3cmd mc ipfs yt-dlp youtube-dl ffmpeg convert magick montage mogrify pdftk gs ghostscript
    libreoffice soffice chromium chrome google-chrome firefox xvfb-run wine qemu-system-x86_64 virt-install lxc incus
    hg svn bzr cvs fossil darcs jj p4 tig lazygit gitk hub glab
    dotenv direnv envsubst envdir chpst s6 runit supervisord supervisorctl pm2 nodemon forever concurrently entr inotifywait
    incrond parallel-ssh pssh clush fabric invoke lefthook husky lint-staged rush
    artisan rails sbt ant ivy lein clj clojure elixir iex mix erl escript rebar3 ocaml opam dune runghc stack
    nim crystal dart flutter zig v swift swiftc racket guile sbcl clisp ecl gprolog swipl octave maxima gap sage R
    mysqladmin mysqlimport pg_restore createdb dropdb mongodump mongorestore mongoimport redis-server etcdctl influx clickhouse
    duckdb sqlite sqlcmd usql litecli pgcli mycli
    wall write mesg talk gpasswd groupadd groupdel userdel newgrp chsh chfn su login newusers chpasswd
    ifconfig route arp iw iwconfig nmcli ethtool tc brctl ufw firewall-cmd nftables nft wg wg-quick
    losetup swapoff sync blkdiscard hdparm sgdisk parted gparted cryptsetup lvm pvcreate vgcreate lvcreate mdadm zfs zpool btrfs
    setfattr lchage chcon restorecon semanage setenforce aa-complain
    env-update update-alternatives dpkg-reconfigure apt-key add-apt-repository brew port pacman yay emerge apk opkg flatpak snapd
    ld as objcopy install-info mktemp unlink rename
    agetty apache2 aptitude bashbug bbot bee cancel code codex ctr dhclient dnsmasq fail2ban-client fastfetch finger jrunscript
    knife ksu mypy ntpdate opencode plymouth posh pygmentize pyright qpdf rustdoc rustfmt setlock socket ssh-copy-id tailscale
    task urlget varnishncsa whiptail whois yelp zless
    abduco adb asciidoctor asdf ava babel bsdtar buck2 buildah c8 chronic conda cpack crictl cross-env cscript ctest cypress delta
    depmod diff-so-fancy esbuild fastboot fuser gitui gjs groovy hatch httpie hx hyperfine ifne ignite jdb joe jshell kotlin
    kotlinc lerna lessc linux32 linux64 lldb luajit lvremove matlab mamba meson micro micromamba mispipe mkdocs mocha msbuild nvm
    nx nyc opam pdftotext pdm pee pipenv playwright postcss qml rar renice rmmod rollup run-p run-s npm-run-all runc sass scala
    scons setarch skill skopeo sphinx-build sponge ssh-add stylelint svgo swc systemd-nspawn tap terser traceroute ping turbo
    uname26 unrar vboxmanage VBoxManage vidir vipe vite webpack wireit wkhtmltopdf xcodebuild zrun rspec rubocop phpunit phpstan
    bunzip2 bzcat lz4 unlz4 lzop lzip pigz unpigz pbzip2 jar unace arc zoo lha cabextract unar lsar 7zr 7zz dar bsdcpio dpkg-deb
    dpkg-source debuild rpm2cpio rpmbuild alien ranlib jarsigner keytool
    sdiff diff3 domainname dnsdomainname nisdomainname ypdomainname wipefs fsck e2fsck tune2fs resize2fs blkid hwclock rtcwake
    ipcrm ipcmk fallocate hardlink pivot_root switch_root nologin sulogin nameif rdma devlink conntrack ebtables arptables udevadm
    coredumpctl bootctl resolvectl networkctl homectl portablectl systemd-tmpfiles systemd-ask-password systemd-analyze sshd
    rdiff-backup rsnapshot unison syncthing ffprobe sox gm inkscape exiv2 jpegtran optipng bmake remake tup samu redo mcedit mc
    ranger nnn lf vifm zellij byobu gvim evim rgvim mg jed initdb pg_ctl vacuumdb mysqlsh mongod nala xbps-install caddy nginx
    httpd haproxy ngrok cloudflared chisel frpc dumpcap tcpflow gdbserver rr bpftool trace-cmd sysdig kexec dkms grub-install
    efibootmgr dracut chage adduser addgroup deluser delgroup usermod groupmod sfdisk cfdisk gdisk partprobe kpartx fstrim mkisofs
    xorriso fusermount fusermount3 rfkill xclip xsel wl-copy notify-send ydotool service rc-service chkconfig telinit update-rc.d
    lockfile setterm swaks msmtp neomutt dvtm ttyd gotty zgrep zegrep zfgrep zdiff zcmp bzgrep xzgrep zipgrep zipsplit zipnote
    zipcloak funzip tarcat shar unshar sharutils lastlog faillog
    xmllint xmlstarlet xmlsec1 html2text pdfunite pdfseparate pdftoppm pdfimages pdftohtml pdftocairo pdfattach pdfdetach
    ps2pdf pdf2ps tesseract dot neato fdp sfdp circo twopi mmdc plantuml cwebp dwebp gif2webp pngcrush pngquant oxipng
    jpegoptim cjpeg djpeg rsvg-convert lame flac opusenc oggenc mkvmerge mkvextract mp4box HandBrakeCLI mplayer mpv vlc cvlc
    sqldiff protoc protoc-gen flatc thrift buf swagger-codegen openapi-generator bindgen cbindgen wasm-pack wasm-bindgen
    wasm2wat wat2wasm wasm-opt wasmtime wasmer emcc em++ clang-format clang-tidy cppcheck astyle indent uncrustify shfmt
    gofmt goimports ormolu fourmolu ktlint scalafmt dartfmt dwz patchelf chrpath elfedit objconv xdelta3 bsdiff bspatch
    vcdiff pahole addr2line c++filt dlltool windres gprofng msgfmt msginit msgcmp xgettext intltool-merge gresource
    glib-compile-schemas glib-compile-resources gtk-update-icon-cache update-desktop-database update-mime-database fc-cache
    mkfontscale texindex makeinfo texi2any texi2dvi dvipdfm dvipdfmx bibtex biber makeindex kpsewhich mktexlsr tlmgr
    latexindent chktex pdfcrop lilypond groff grops grodvi gropdf man2html help2man faketime fakeroot fakechroot proot bindfs
    cpuset cgexec numactl prlimit eatmydata unbuffer ptyget reptyr nq tsp
    ctags cscope doxygen gcov gprof pyenv rbenv nodenv jenv volta fnm rtx corepack bazel bazelisk identify open
";

static NAMES: LazyLock<HashSet<&'static str>> =
    LazyLock::new(|| PROGRAMS.split_whitespace().chain(WRAPPERS.iter().copied()).collect());

/// Returns true if a listed prefix is not enough for the program.
pub(crate) fn is_guarded(program: &str) -> bool {
    let name = base_name(program);
    is_known(name) || is_interpreter(name) || super::runs::is_never_leased(name).is_some()
}

/// Returns true if the name is that of a program that is known here or in the tables.
pub(super) fn is_known(name: &str) -> bool {
    NAMES.contains(name) || has_table(name) || name.starts_with("mkfs.") || name.starts_with("git-")
}
