#!/usr/bin/env node
// Starts the program of this machine's architecture, which npm has installed as an optional dependency.
'use strict';

const { spawn } = require('node:child_process');

const name = `@handfast/linux-${process.arch}`;
let program;
try {
  if (process.platform !== 'linux') throw new Error('not Linux');
  program = require.resolve(`${name}/bin/handfast`);
} catch {
  const here = `${process.platform} on ${process.arch}`;
  console.error(`handfast: no program for ${here}: the package ${name} is not installed.`);
  console.error('handfast runs on Linux and WSL2, on x64 and arm64; install without --omit=optional.');
  process.exit(1);
}

const child = spawn(program, process.argv.slice(2), { stdio: 'inherit' });
// The terminal sends Ctrl-C to both processes; what else asks this one to end is passed on.
const passed = ['SIGTERM', 'SIGHUP', 'SIGQUIT'];
for (const signal of passed) process.on(signal, () => child.kill(signal));
process.on('SIGINT', () => {});
child.on('error', (error) => {
  console.error(`handfast: cannot start ${program}: ${error.message}`);
  process.exit(1);
});
child.on('exit', (code, signal) => {
  if (signal === null) process.exit(code);
  // Ends by the same signal, so that the caller sees what ended the program.
  for (const each of [...passed, 'SIGINT']) process.removeAllListeners(each);
  process.kill(process.pid, signal);
});
