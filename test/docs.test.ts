import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import ts from 'typescript'
import { folder, root, run, sparing, startNode, svc } from './node/kit.js'

const read = (path: string): string => readFileSync(join(root, path), 'utf8')
const EXAMPLES = ['words', 'beep']
const source = (path: string): string => join(root, 'docs/examples', path)

/** Files of an example except node_modules, which link to this repository and its running tests. */
function files (project: string): string[] {
  return readdirSync(project, { withFileTypes: true }).flatMap((entry) => {
    if (!entry.isDirectory()) return [entry.name]
    const inside = entry.name === 'node_modules' ? [] : files(join(project, entry.name))
    return inside.map((path) => join(entry.name, path))
  })
}

/** Copies an example out of the repository and links svc into it, as `svc plugin new` does. */
function project (t: Test, example: string): string {
  const copy = join(folder(t), example)
  cpSync(source(example), copy, { recursive: true })
  mkdirSync(join(copy, 'node_modules'))
  symlinkSync(root, join(copy, 'node_modules', 'svc'), 'dir')
  symlinkSync(join(root, 'node_modules/tap'), join(copy, 'node_modules', 'tap'), 'dir')
  const json = join(copy, 'package.json')
  if (!existsSync(json)) writeFileSync(json, JSON.stringify({ name: example, private: true, type: 'module' }))
  return copy
}

/** TypeScript's errors in the JavaScript files of these projects. */
function mistakes (...projects: string[]): string[] {
  const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), ts.sys.readFile)
  const { compilerOptions } = config as { compilerOptions: object }
  const options = { ...compilerOptions, allowJs: true, checkJs: true, noEmit: true, rootDir: '/',
    typeRoots: [join(root, 'node_modules/@types')] }
  const { options: parsed } = ts.parseJsonConfigFileContent({ compilerOptions: options }, ts.sys, root)
  const scripts = projects.flatMap((project) =>
    files(project).filter((path) => path.endsWith('.js')).map((path) => join(project, path)))
  const program = ts.createProgram(scripts, parsed)
  return ts.getPreEmitDiagnostics(program).map((d) =>
    `${d.file?.fileName ?? ''}: ${ts.flattenDiagnosticMessageText(d.messageText, ' ')}`)
}

t.test('the documents show the examples unchanged', (t) => {
  const text = ['docs/writing-a-plugin.md', 'docs/writing-an-engine.md'].map(read).join('\n')
  const blocks = [...text.matchAll(/^```\w+ file=(\S+)\n([\s\S]*?)^```$/gm)]
  const shown = new Map(blocks.map(([, path, body]) => [path!, body!]))
  for (const [path, body] of shown) t.equal(body, read(path), path)
  const whole = EXAMPLES.flatMap((name) => files(source(name)).map((path) => `docs/examples/${name}/${path}`))
  const hidden = whole.filter((path) => !shown.has(path))
  t.same(hidden, ['docs/examples/beep/model/beep.json'], 'all but one line of data is shown')
  t.end()
})

for (const example of EXAMPLES) {
  t.test(`the example ${example} passes its tests outside the repository`, async (t) => {
    const copy = project(t, example)
    for (const name of readdirSync(join(copy, 'test'))) {
      const child = run(process.execPath, [join('test', name)], { cwd: copy })
      t.equal(await child.ended, 0, child.stdout())
      t.match(child.stdout(), /^ok [1-9]/m)
    }
  })
}

t.test('the examples compile; the compiler rejects what the manifest does not declare', (t) => {
  const copy = project(t, 'words')
  const text = read('docs/examples/words/index.js')
  const change = (from: string, to: string): string => {
    t.ok(text.includes(from), from)
    return text.replace(from, to)
  }
  const wrong: [string, string, RegExp][] = [
    ['a route without a handler', change('routes: { total: () => ({ words: counted }) },', ''), /routes/],
    ['an event nobody declared', change("emit('WordsCounted'", "emit('WordsSeen'"), /WordsSeen/],
    ['an event off its schema', change("'WordsCounted', { words }", "'WordsCounted', { word: 1 }"), /word/],
    ['a reason nobody declared', change("ctx.error('too_many_words'", "ctx.error('too_many'"), /too_many/],
    ['a setting that is not there', change('{ most } = ctx.config', '{ more: most } = ctx.config'), /more/]
  ]
  wrong.forEach(([, code], i) => { writeFileSync(join(copy, `wrong-${i}.js`), code) })
  const found = mistakes(copy, project(t, 'beep'))
  wrong.forEach(([what, , message], i) => {
    t.match(found.filter((line) => line.includes(`wrong-${i}.js`)).join('\n'), message, what)
  })
  t.same(found.filter((line) => !line.includes('wrong-')), [], 'and nothing in the examples themselves')
  t.end()
})

t.test('both examples work on a real node, the engine in a real runner', async (t) => {
  const node = await startNode(t, { config: { plugins: {
    words: { module: join(project(t, 'words'), 'index.js'), most: 3 },
    beep: { module: source('beep/index.js') },
    placement: { autoplace: ['example/beep'] }
  } } })
  const call = async (...args: string[]): ReturnType<typeof svc> =>
    await svc(['--home', node.home, 'call', ...args])
  const fits = await call('words@1.0.0', '--text', 'one two three', '--json')
  t.match(fits, { status: 0, stdout: /"words": ?3/ })
  const tooLong = await call('words@1.0.0', '--text', 'one two three four')
  t.match(tooLong, { status: 2, stderr: /at most 3 are taken/ })
  t.same(await (await fetch(`${node.url}/v1/words`)).json(), { words: 3 })
  const sound = join(folder(t), 'beep.pcm')
  t.match(await call('beep@1.0.0', '--seconds', '0.3', '-o', sound), { status: 0 })
  t.equal(readFileSync(sound).byteLength, 2 * 0.3 * 16_000)
  const tooMuch = await call('beep@1.0.0', '--seconds', '61', '-o', sound)
  t.match(tooMuch, { status: 2, stderr: /at most 60 are possible/ })
})

t.test('a plugin created by svc plugin new passes its own tests and can be called', async (t) => {
  const made = join(folder(t), 'demo')
  t.match(await svc(['plugin', 'new', 'demo', '--dir', made]), { status: 0 })
  const child = run('npm', ['test'], { cwd: made })
  t.equal(await child.ended, 0, child.stdout() + child.stderr())
  const node = await startNode(t, { config: { plugins: {
    demo: { module: join(made, 'index.js') }, placement: { autoplace: [] }
  } } })
  t.match(await svc(['--home', node.home, 'capabilities']), { stdout: /demo@1\.0\.0/ })
  const answer = await svc(['--home', node.home, 'call', 'demo@1.0.0', '--text', 'good morning'])
  t.match(answer, { status: 0, stdout: /morning/ })
})

const look = 'for tool in curl bash seq sed; do command -v $tool || exit 1; done'
const tools = await run('sh', ['-c', look]).ended
const skip = tools === 0 ? false : 'curl, bash, seq or sed is not installed'
t.test('every command of docs/api.md works as written', { skip }, async (t) => {
  const [, part] = /<!-- routes -->([\s\S]*)<!-- \/routes -->/.exec(read('docs/api.md'))!
  const blocks = [...part!.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, body]) => body!)
  t.ok(blocks.length > 5)
  const node = await startNode(t, {
    // Tests must not contact a public hub. With the hub disabled, a model search gets 409.
    config: { model_store: { store_path: 'store', hub: { enabled: false } } },
    env: sparing(0)
  })
  const script = [`SVC=${node.url}`, `TOKEN=$(cat ${node.home}/operator.token)`, ...blocks.map((block, i) =>
    `echo; echo "=== ${i}"\n${block}`)].join('\n')
  const child = run('bash', ['-euo', 'pipefail', '-c', script], { cwd: folder(t) })
  t.equal(await child.ended, 0, child.stderr())
  const said = child.stdout()
  const answers = [
    /"ok":true/, /"ready":true/, /"openapi":"3\.1\.0"/, /^data: \{"sessionId"/m, /"svc\/voice-en"/,
    /"kind":"completed"/, /call it through \/v1\/capabilities\/stream/, /"cancelled":true/,
    /"message":"The command was cancelled/, /101 Switching Protocols/, /"token":"svc_app_/, /"revoked":true/,
    /"state":"ready"[,}]/, /"diagnosis":"[^"]+","sure"/, /^data: \{"type":"answer"/m,
    /"model":"svc\/steward"/,
    /"restart_needed":true/, /"status":"restarting"/, /"reason":"hub_disabled"/, /"message":"Would remove /
  ]
  for (const answer of answers) t.ok(answer.test(said), String(answer))
})
