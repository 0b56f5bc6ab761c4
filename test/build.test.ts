import { spawn, spawnSync } from 'node:child_process'
import {
  cpSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync
} from 'node:fs'
import { createInterface } from 'node:readline'
import { once } from 'node:events'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'

const root = fileURLToPath(new URL('..', import.meta.url))
const { NODE_OPTIONS: _, ...env } = process.env

/** A fake checkout: its built program prints `name`, and loads another chunk from the build on request. */
function checkout (t: Test): string {
  const folder = t.testdir({
    node_modules: {}, plugins: {},
    'package.json': '{"name":"svc","version":"0.0.1","type":"module","files":["dist"]}'
  })
  mkdirSync(join(folder, 'kernel'))
  cpSync(join(root, 'kernel/build'), join(folder, 'kernel/build'), { recursive: true })
  symlinkSync(join(root, 'node_modules/esbuild'), join(folder, 'node_modules/esbuild'))
  writeFileSync(join(folder, 'lay.mjs'), `
    import { ENTRIES } from './kernel/build/bundle.mjs'
    import { dist } from './kernel/build/paths.mjs'
    import { publish } from './kernel/build/publish.mjs'
    const { setTimeout: sleep } = await import('node:timers/promises')
    for (const name of process.argv.slice(2)) {
      const texts = Object.fromEntries(ENTRIES.map((entry) => [entry + '.js', 'export const name = 1']))
      texts['chunks/' + name + '.js'] = 'export const chunk = "chunk of ' + name + '"'
      texts['kernel/cli/main.js'] = \`
        import { createInterface } from 'node:readline'
        console.log('\${name}')
        if (process.argv[2] === 'stay') {
          for await (const _ of createInterface({ input: process.stdin })) {
            console.log((await import('../../chunks/\${name}.js')).chunk)
          }
        }\`
      await publish(name, {
        outputFiles: Object.entries(texts).map(([path, contents]) =>
          ({ path: dist + '/build/' + path, contents })),
        metafile: { inputs: {}, outputs: Object.fromEntries(Object.keys(texts).map((path) =>
          ['dist/build/' + path, { exports: ['name'], inputs: {} }])) }
      }, [])
      // A real build takes seconds.
      await sleep(Number(process.env.PAUSE))
    }`)
  return folder
}

const build = (n: number): string => n.toString(16).padStart(16, '0')
const lay = (folder: string, ...names: string[]): void => {
  const { status, stderr } = spawnSync(process.execPath, ['lay.mjs', ...names],
    { cwd: folder, env: { ...env, PAUSE: '0' }, encoding: 'utf8' })
  if (status !== 0) throw new Error(stderr)
}

t.test('a process keeps its build; unused builds are removed', async (t) => {
  const folder = checkout(t)
  const dist = join(folder, 'dist')
  const builds = (): string[] => readdirSync(dist).filter((name) => /^[0-9a-f]{16}$/.test(name)).sort()
  lay(folder, build(1))
  const running = spawn(process.execPath, [join(dist, 'kernel/cli/main.js'), 'stay'],
    { env, stdio: ['pipe', 'pipe', 'inherit'] })
  t.teardown(() => { running.kill('SIGKILL') })
  const lines = createInterface({ input: running.stdout })[Symbol.asyncIterator]()
  t.same(await lines.next(), { value: build(1), done: false })
  lay(folder, ...[2, 3, 4, 5, 6].map(build))
  if (process.platform === 'linux') t.same(builds(), [1, 4, 5, 6].map(build), 'that in use is left')
  running.stdin.write('\n')
  t.same(await lines.next(), { value: `chunk of ${build(1)}`, done: false }, 'read for the first time')
  running.stdin.end()
  await once(running, 'exit')
  lay(folder, build(7))
  if (process.platform === 'linux') t.same(builds(), [5, 6, 7].map(build))
})

t.test('a start during a build finds a complete one', async (t) => {
  const folder = checkout(t)
  lay(folder, build(1))
  const laying = spawn(process.execPath, ['lay.mjs', ...Array.from({ length: 400 }, (_, i) => build(i + 2))],
    { cwd: folder, env: { ...env, PAUSE: '50' }, stdio: 'inherit' })
  const over = once(laying, 'exit')
  const seen = new Set<string>()
  for (let i = 0; i < 20; i++) {
    const child = spawn(process.execPath, [join(folder, 'dist/kernel/cli/main.js')],
      { env, stdio: ['ignore', 'pipe', 'inherit'] })
    const ended = once(child, 'exit')
    for await (const line of createInterface({ input: child.stdout })) seen.add(line)
    t.same(await ended, [0, null])
  }
  t.equal(laying.exitCode, null, 'they were laid down all the time')
  laying.kill()
  await over
  t.ok(seen.size > 1, `${seen.size} builds were met`)
})

t.test('a package has only the newest build', (t) => {
  const folder = checkout(t)
  lay(folder, build(1), build(2))
  writeFileSync(join(folder, 'dist/.tsbuildinfo'), '{}')
  const { stdout } = spawnSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'],
    { cwd: folder, env, encoding: 'utf8' })
  const [{ files }] = JSON.parse(stdout) as [{ files: { path: string }[] }]
  const tops = new Set(files.map(({ path }) => path.split('/').slice(0, 2).join('/')))
  t.same([...tops].sort(),
    [`dist/${build(2)}`, 'dist/LICENCES.txt', 'dist/kernel', 'dist/plugins', 'package.json'])
  t.end()
})

t.test('an up-to-date build is not repeated', { skip: !existsSync(join(root, 'dist/current')) }, (t) => {
  const built = (): number => statSync(join(root, 'dist/current/kernel/cli/main.js')).mtimeMs
  const before = built()
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as
    { scripts: Record<string, string> }
  t.match(scripts, { prepare: 'npm run build', build: 'node kernel/build/build.mjs' }, 'what npx runs')
  t.match(spawnSync(process.execPath, ['kernel/build/build.mjs'], { cwd: root, env }), { status: 0 })
  const ran = spawnSync('./svc', ['--version'], { cwd: root, env, encoding: 'utf8' })
  t.match(ran, { status: 0, stdout: /^\d+\.\d+\.\d+\n$/, stderr: '' })
  t.equal(built(), before)
  t.end()
})

t.test('each package whose code is in the build is named with its licence', (t) => {
  const text = readFileSync(join(root, 'dist/LICENCES.txt'), 'utf8')
  const sources = JSON.parse(readFileSync(join(root, 'dist/sources.json'), 'utf8')) as
    Record<string, string[]>
  const packages = new Set(Object.values(sources).flat()
    .flatMap((path) => /.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1] ?? []))
  t.ok(packages.size > 50)
  for (const name of packages) {
    t.match(text, new RegExp(`^${name.replaceAll(/[/.]/g, '\\$&')} \\d\\S*, \\S`, 'm'), name)
  }
  t.match(text, /Apache License/)
  t.end()
})
