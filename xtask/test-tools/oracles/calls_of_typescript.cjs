// Prints the calls that TypeScript's own compiler finds within a package, for `cargo xtask eval oracles`.
//
// node calls_of_typescript.cjs FOLDER

"use strict";

const fs = require("node:fs");
const path = require("node:path");
const ts = require("typescript");

const root = path.resolve(process.argv[2]);

/** Lists the sources of the package: no declarations, no tests. */
function sources(folder, found = []) {
    for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
        const at = path.join(folder, entry.name);
        if (entry.isDirectory()) entry.name === "tests" || sources(at, found);
        else if (/\.tsx?$/.test(entry.name) && !/\.d\.ts$/.test(entry.name)) found.push(at);
    }
    return found.sort();
}

const files = sources(root);
const program = ts.createProgram(files, {
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    lib: ["lib.es2022.d.ts", "lib.dom.d.ts", "lib.dom.iterable.d.ts"],
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    types: [],
});
const checker = program.getTypeChecker();
const own = new Set(files);
const edges = [];
const undecided = [];
let outside = 0;

function place(node, file) {
    const { line } = file.getLineAndCharacterOfPosition(node.getStart(file));
    return { file: path.relative(root, file.fileName), line: line + 1 };
}

/** Returns the function that a declaration stands for, with its body, or undefined. */
function body(declaration) {
    if (ts.isClassLike(declaration)) return declaration;
    if (ts.isFunctionLike(declaration) && declaration.body) return declaration;
    // A signature before the body of the same function.
    const symbol = declaration.symbol;
    const others = symbol ? symbol.declarations ?? [] : [];
    return others.find((other) => ts.isFunctionLike(other) && other.body);
}

/** Returns the node whose line is that of the definition: the variable or property of a function without a name. */
function named(declaration) {
    let node = declaration;
    while (
        (ts.isArrowFunction(node) || ts.isFunctionExpression(node) || ts.isClassExpression(node)) &&
        node.parent &&
        (ts.isParenthesizedExpression(node.parent) || ts.isVariableDeclaration(node.parent) ||
            ts.isPropertyAssignment(node.parent) || ts.isPropertyDeclaration(node.parent))
    ) {
        node = node.parent;
    }
    if (ts.isConstructorDeclaration(node)) node = node.parent;
    return node.name ?? node;
}

function nameOf(expression) {
    if (ts.isIdentifier(expression)) return expression.text;
    if (ts.isPropertyAccessExpression(expression)) return expression.name.text;
    return "";
}

/** Follows a name to what it is bound to. */
function declarationsOf(expression) {
    let symbol = checker.getSymbolAtLocation(
        ts.isPropertyAccessExpression(expression) ? expression.name : expression,
    );
    if (symbol && symbol.flags & ts.SymbolFlags.Alias) symbol = checker.getAliasedSymbol(symbol);
    return symbol?.declarations ?? [];
}

function edge(at, name, declaration) {
    const of = named(declaration);
    const to = place(of, of.getSourceFile());
    edges.push({ ...at, name: ts.isIdentifier(of) ? of.text : name, to_file: to.file, to_line: to.line });
}

function visit(node, file) {
    if (ts.isCallExpression(node) || ts.isNewExpression(node)) {
        const callee = node.expression;
        const at = place(ts.isPropertyAccessExpression(callee) ? callee.name : callee, file);
        const name = nameOf(callee);
        const signature = checker.getResolvedSignature(node)?.declaration;
        const classes = ts.isNewExpression(node) ? declarationsOf(callee).filter(ts.isClassLike) : [];
        const candidates = [...classes, ...(signature ? [signature] : []), ...declarationsOf(callee)];
        const found = candidates.map(body).filter((one) => one && own.has(one.getSourceFile().fileName));
        if (callee.kind === ts.SyntaxKind.SuperKeyword) {
            undecided.push({ ...at, name: "" });
        } else if (found.length > 0) {
            // A class of its own and the constructor that it inherits are both called; else the best one counts.
            for (const one of ts.isNewExpression(node) ? found : found.slice(0, 1)) edge(at, name, one);
        } else if (candidates.some((one) => own.has(one.getSourceFile().fileName)) || candidates.length === 0) {
            // What is called is a value or a signature: any function may be.
            undecided.push({ ...at, name }, { ...place(node, file), name: "" }, { ...at, name: "" });
        } else {
            outside += 1;
        }
    } else if (ts.isPropertyAccessExpression(node)) {
        // Reading a property with a getter calls that.
        const getter = declarationsOf(node).find((one) => ts.isGetAccessor(one) && one.body);
        if (getter && own.has(getter.getSourceFile().fileName)) edge(place(node.name, file), node.name.text, getter);
    } else if (ts.isTaggedTemplateExpression(node) || ts.isDecorator(node)) {
        undecided.push({ ...place(node, file), name: "" });
    }
    ts.forEachChild(node, (child) => visit(child, file));
}

for (const file of program.getSourceFiles()) {
    if (own.has(file.fileName)) visit(file, file);
}
process.stdout.write(JSON.stringify({ edges, undecided, outside }));
