
let isSettled = false;
// Not emitted if the script ends the process itself.
process.on("beforeExit", () => {
  if (!isSettled) {
    console.error("Warning: Detected unsettled top-level await in script.mjs");
    process.exit(13);
  }
});
process.on("exit", (status) => {
  send({ end: status & 255 });
});
process.on("uncaughtException", (error) => {
  console.error(error);
  process.exit(1);
});
try {
  await import(pathToFileURL(path.join(folder, "script.mjs")));
} catch (error) {
  console.error(error);
  process.exitCode = 1;
}
isSettled = true;
