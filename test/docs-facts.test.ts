import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { builtIn } from '../kernel/cli/builtin.js'
import { exitCodeMeanings } from '../kernel/cli/errors.js'
import { findSetting } from '../kernel/config/resolve.js'
import { table } from '../docs/pages.js'
import { routesOf } from '../kernel/plugins/registry.js'
import { kernelManifest } from '../kernel/plugins/kernel-manifest.js'
import { supportOf } from '../plugins/capabilities-tts/card-reader.js'
import { bundled } from '../plugins/index.js'
import type { Manifest } from '../kernel/index.js'

const root = fileURLToPath(new URL('..', import.meta.url))
const read = (path: string): string => readFileSync(join(root, path), 'utf8')
const manifests: readonly Manifest[] = [kernelManifest, ...bundled.map((p) => p.manifest)]

function under (folder: string, ending: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith(ending) && !/node_modules|(^|\/)data\//.test(path))
    .map((path) => join(folder, path)).sort()
}

const folders = ['kernel', 'docs', 'plugins']
const pages = ['README.md', 'CHANGELOG.md', ...folders.flatMap((folder) => under(folder, '.md'))]
/** The text of a page without fenced code, indented blocks and comments. */
const prose = (text: string): string => text.replace(/^```[\s\S]*?^```$/gm, '').replace(/^ {4}.*$/gm, '')

t.test('every relative link has a target', (t) => {
  for (const path of pages) {
    const links = /\]\((?!https?:)([^)#\s]*)(#[^)\s]*)?[^)]*\)/g
    for (const [, to = '', anchor] of prose(read(path)).matchAll(links)) {
      const target = to === '' ? path : join(dirname(path), to)
      t.ok(existsSync(join(root, target)), `${path} links to ${target}`)
      if (anchor === undefined || !target.endsWith('.md')) continue
      const headings = [...prose(read(target)).matchAll(/^#+ (.*)$/gm)].map(([, text]) =>
        `#${text!.toLowerCase().replace(/[^\w\- ]/g, '').replaceAll(' ', '-')}`)
      t.ok(headings.includes(anchor), `${path} links to ${target}${anchor}`)
    }
  }
  t.end()
})

t.test('every repository file that a page names exists', (t) => {
  const named = /`((?:kernel|plugins|test|docs)\/[\w./-]+?\/?)`/g
  for (const path of pages) {
    for (const [, file] of prose(read(path)).matchAll(named)) {
      if (!/^test\/faults$/.test(file!)) t.ok(existsSync(join(root, file!)), `${path} names ${file}`)
    }
  }
  t.end()
})

t.test('every threat has a control, and an existing test or a page with the reason', (t) => {
  const rows = read('docs/operations/security.md').split('\n').filter((line) => line.startsWith('| '))
    .map((line) => line.split(' | ')).slice(1)
  t.ok(rows.length > 20, `${rows.length} threats`)
  for (const [threat = '', control = '', shown = ''] of rows) {
    t.not(control, '', threat)
    const tests = [...shown.matchAll(/`([\w./-]+\.test\.ts)`/g)].map(([, file]) => file!)
    t.ok(tests.length > 0 || shown.includes('[limits]'), `${threat} is tried somewhere`)
    for (const file of tests) t.match(read(file), /\bt\.(test|equal|match|rejects)\b/, file)
  }
  t.end()
})

t.test('the exports of svc/plugin are documented and few', (t) => {
  const files = ['kernel/public.ts', 'plugins/public.ts'].map(read).join('\n')
  const names = [...files.matchAll(/^export (?:type )?\{([^}]*)\}/gm)]
    .flatMap(([, list]) => list!.split(',').map((name) => name.trim()))
  t.ok(names.length > 30 && names.length <= 45, `${names.length} names`)
  const guide = read('docs/writing-a-plugin.md')
  for (const name of names) t.match(guide, new RegExp(`\\b${name}\\b`), name)
  t.end()
})

/** Code walks in docs/architecture.md, with the maximum number of files that each may name. */
const walks = {
  'A boot': 13, 'A spoken sentence': 34, 'From a pull to a copy on another node': 40, 'A lost node': 17
}

t.test('the walks name existing files, and do not get longer', (t) => {
  const text = read('docs/architecture.md')
  for (const [title, most] of Object.entries(walks)) {
    const passed = new Set<string>()
    let folder = '.'
    const section = new RegExp(`^##+ ${title}\\n([\\s\\S]*?)^##`, 'm').exec(text)?.[1] ?? ''
    for (const [, named] of section.matchAll(/`([\w./-]+\.ts)`/g)) {
      const above = folder.split('/').map((_, i, parts) => parts.slice(0, parts.length - i).join('/'))
      const there = ['.', ...above].map((from) => join(from, named!))
        .find((file) => existsSync(join(root, file)))
      t.ok(there, `${title}: ${named}`)
      if (there === undefined) continue
      passed.add(there)
      folder = dirname(there)
    }
    t.ok(passed.size > 0 && passed.size <= most, `${title}: ${passed.size} files, at most ${most}`)
  }
  const files = ['kernel', 'plugins', 'test', 'docs'].flatMap((part) => under(part, '.ts'))
    .map((file) => `/${file}`)
  for (const [, named] of text.matchAll(/`([\w./-]+\.ts)`/g)) {
    t.ok(files.some((file) => file.endsWith(`/${named}`)), `docs/architecture.md names ${named}`)
  }
  t.end()
})

t.test('every page of docs links to the glossary', (t) => {
  for (const path of under('docs', '.md').filter((p) => !/glossary\.md$|decisions\/\d|recipes\//.test(p))) {
    t.match(read(path), /\]\([^)]*glossary\.md\)/, path)
  }
  t.end()
})

t.test('the list of decisions is complete', (t) => {
  const listed = [...read('docs/decisions/README.md').matchAll(/\]\((\d{3}-[a-z-]+\.md)\) \| (.+) \|/g)]
  const there = under('docs/decisions', '.md').filter((path) => /\/\d/.test(path))
  t.same(listed.map(([, file]) => `docs/decisions/${file!}`), there)
  for (const [, file, title] of listed) {
    const text = read(`docs/decisions/${file!}`)
    t.equal(text.split('\n')[0], `# ${file!.slice(0, 3)} ${title!}`)
    for (const part of ['Context', 'Decision', 'Why', 'Consequences']) {
      t.ok(text.includes(`**${part}.**`), `${file!}: ${part}`)
    }
  }
  t.end()
})

t.test('the API by example has a curl of every route', (t) => {
  const text = read('docs/api.md').replace(/\\\n */g, '')
  const shown = [...text.matchAll(/curl [^\n]*?\$SVC(\/[^\s"?]*)[^\n]*/g)].map(([line, path]) =>
    ({ method: / -X (\w+)/.exec(line)?.[1] ?? (/ -d /.test(line) ? 'POST' : 'GET'), path: path! }))
  for (const { decl } of routesOf(manifests)) {
    const url = decl.url.replace(':model_id', '.+').replace(/:[a-z_]+/g, '[^/]+').replace(/\*$/, '.+')
    const pattern = new RegExp(`^${url}$`)
    t.ok(shown.some((s) => s.method === decl.method && pattern.test(s.path)), `${decl.method} ${decl.url}`)
  }
  t.end()
})

t.test('documents and remedies name only existing verbs', (t) => {
  const names = ['help', ...builtIn.map((v) => v.name),
    ...manifests.flatMap((m) => Object.keys(m.verbs ?? {}))]
  const firsts = new Set(names.map((name) => name.split(' ')[0]!))
  const groups = new Set(names.filter((name) => name.includes(' ')).map((name) => name.split(' ')[0]!))
  const known = (first: string, second: string | undefined): boolean =>
    groups.has(first) ? second === undefined || names.includes(`${first} ${second}`) : firsts.has(first)
  const check = (where: string, text: string): void => {
    const verbs = /(?:`|^ {4}|npx |\.\/|Run )svc ([a-z][a-z-]*)(?: ([a-z]+))?/gm
    for (const [, first, second] of text.matchAll(verbs)) {
      t.ok(known(first!, second), `${where}: svc ${first!} ${second ?? ''}`)
    }
  }
  for (const path of pages) check(path, read(path))
  for (const m of manifests) {
    for (const [id, e] of Object.entries(m.errors ?? {})) check(`error ${id}`, e.remedy)
    for (const [id, c] of Object.entries(m.conflicts ?? {})) check(`conflict ${id}`, c.remediation)
  }
  t.end()
})

const SETTING = /`((?:api|access|limits|logging|plugins\.(?:runners|capabilities-tts))\.(?!ts`)[a-z_.-]+)`/g

t.test('documents name only existing settings', (t) => {
  const owners = manifests.slice(1).map(({ name, config, settings }) => ({ name, bundled: true,
    ...(config === undefined ? {} : { config }), ...(settings === undefined ? {} : { settings }) }))
  for (const path of pages) {
    for (const [, setting] of prose(read(path)).matchAll(SETTING)) {
      t.ok(findSetting(owners, setting!).schema !== null, `${path}: ${setting!}`)
    }
  }
  t.end()
})

t.test('operations lists every exit code, and the README of tts every field of every family', (t) => {
  const [, section] = read('docs/operations/running.md').split('## Exit codes')
  const listed = [...section!.matchAll(/^\| (\d+) \|/gm)].map(([, code]) => Number(code))
  t.same(listed, exitCodeMeanings.map(([code]) => code))
  const families = ['flite', 'piper', 'kokoro']
  const fields = [...new Set(families.flatMap((family) => Object.keys(supportOf(family))))].sort()
  const support = table(['Field', ...families.map((f) => `\`${f}\``)], fields.map((field) => {
    const cells = families.map((family) => supportOf(family)[field] ?? '-')
    return [`\`${field}\``, ...cells.map((cell, i) => i > 0 && cell === cells[0] ? 'the same' : cell)]
  }))
  const readme = read('plugins/capabilities-tts/README.md')
  const shown = /<!-- support -->\n\n([\s\S]*?)\n\n<!-- \/support -->/.exec(readme)?.[1]
  t.equal(shown, support, 'the table between the support markers')
  t.end()
})

t.test('the README of the steward lists every tool with its owner', (t) => {
  const rows = [...read('plugins/steward/README.md').matchAll(/^\| (`[^|]+`) \| [^|]+ \| ([a-z-]+) \|$/gm)]
  const listed = rows.flatMap(([, names, owner]) =>
    [...names!.matchAll(/`(\w+)`/g)].map(([, name]) => `${owner!} ${name!}`))
  const declared = manifests.flatMap(({ name, tools }) =>
    Object.keys(tools ?? {}).map((tool) => `${name} ${tool}`))
  t.same(listed.sort(), declared.sort())
  t.end()
})

t.test('the notices name every dependency with its licence', (t) => {
  const { dependencies, optionalDependencies } = JSON.parse(read('package.json')) as
    Record<'dependencies' | 'optionalDependencies', Record<string, string>>
  const notices = read('THIRD_PARTY_NOTICES')
  for (const name of [...Object.keys(dependencies), ...Object.keys(optionalDependencies)]) {
    if (!existsSync(join(root, 'node_modules', name)) && name in optionalDependencies) continue
    const { license } = JSON.parse(read(`node_modules/${name}/package.json`)) as { license: string }
    t.match(notices, new RegExp(`^  ${name.replace('/', '\\/')} .*${license}$`, 'm'), name)
  }
  const { packages } = JSON.parse(read('package-lock.json')) as
    { packages: Record<string, { dev?: boolean, license?: string }> }
  const installed = Object.entries(packages).filter(([path, p]) => path !== '' && p.dev !== true)
  const seen = new Set(installed.map(([, p]) => p.license))
  for (const licence of seen) {
    const known = ['MIT', 'ISC', 'BSD-3-Clause', '0BSD', 'Apache-2.0', 'BlueOak-1.0.0', 'LGPL-2.1',
      'LGPL-3.0', 'MPL-2.0', '(MIT OR CC0-1.0)', '(MIT OR WTFPL)', '(BSD-2-Clause OR MIT OR Apache-2.0)']
    t.ok(known.includes(licence ?? 'none'), `a licence the notices speak of: ${licence ?? 'none'}`)
  }
  for (const file of ['plugins/capabilities-tts/voice/en_US-flite-16k.NOTICE.txt',
    'plugins/capabilities-tts/text/data/CMUDICT-LICENCE.txt']) {
    t.ok(notices.includes(read(file).trimEnd()), `${file} is in the notices`)
  }
  t.end()
})

t.test('no document recommends the registry\'s package of the same name', (t) => {
  for (const path of [...pages, 'THIRD_PARTY_NOTICES']) {
    t.notMatch(read(path), /npm (i|install|add)( -\S+)* svc\b|npx (-y |--yes )svc|npx svc@/, path)
  }
  t.end()
})

t.test('the state hides from callers without `operator` exactly the contract\'s fields', (t) => {
  t.same(manifests.flatMap(({ stateWhereabouts = [] }) => stateWhereabouts).sort(), [
    'apiUrl', 'configPath', 'directory', 'donorEndpoints', 'hostsByNode', 'interfaces', 'sinkMultiaddr',
    'stagingRoot', 'storePath', 'store_path'
  ])
  t.end()
})
