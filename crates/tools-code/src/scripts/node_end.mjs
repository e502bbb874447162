
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
