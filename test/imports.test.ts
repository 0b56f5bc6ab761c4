/** Rules for imports in kernel and plugins; they also cover type imports and dynamic imports. */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import ts from 'typescript'
import { bundled } from '../plugins/index.js'

/** Allowed imports between plugins, each with its reason. This list may only shrink. */
const ALLOWED: Readonly<Record<string, string>> = {
  'plugins/dashboard/page/playground/incoming.ts -> plugins/chat/repetition.ts': 'the page has no services',
  ...Object.fromEntries(['recording', 'tools/slow'].map((file) =>
    [`plugins/tracing/${file}.ts -> plugins/runners/service.ts`, 'it stays on where runners are off']))
}
/** Kernel modules that only the named plugin may import. */
const OWN: Readonly<Record<string, string>> =
  { cluster: 'kernel/cluster.ts', packages: 'kernel/installing.ts' }
/** Modules that others may import. All but service.ts are for processes that should load few modules. */
const KERNEL = new RegExp('^kernel/(index|public|cli/index|net/encoding|' +
  'api/(byte-queue|engine|schema|validate))\\.ts$')
const PLUGIN = new RegExp('^plugins/([^/]+/service\\.ts$|runners/(cards|language|onnx|openai)/|' +
  'devices/signing/|capabilities/(cli/invoke\\.ts$|frames/))')
/** Stateless modules, which others may import even while the plugin is off. */
const STATELESS = /^plugins\/runners\/cards\//
/** Importable by the command line only, which has every bundled plugin, whether enabled or not. */
const CLI = /^plugins\/(cluster\/cli\/nodes|chat\/cli\/converse)\.ts$/
const root = fileURLToPath(new URL('..', import.meta.url))
const git = 'ls-files -co --exclude-standard kernel plugins'.split(' ')
const files = new Set(execFileSync('git', git, { cwd: root, encoding: 'utf8' }).split('\n').filter((path) =>
  /\.(tsx?|mjs)$/.test(path) && !/\/(test|fixtures)\//.test(path) && ts.sys.fileExists(root + path)))
const all = [...files].flatMap((from) => {
  const text = readFileSync(root + from, 'utf8')
  return ts.preProcessFile(text).importedFiles.flatMap(({ fileName, pos }) => {
    const path = posix.join(posix.dirname(from), fileName).replace(/\.js$/, '.ts')
    const to = [path, `${path}x`].find((one) => fileName.startsWith('.') && files.has(one))
    const [, type] = [...text.slice(0, pos).matchAll(/\b(?:im|ex)port\b( type\b)?/g)].at(-1) ?? []
    return to === undefined ? [] : [{ from, to, isType: type !== undefined, arrow: `${from} -> ${to}` }]
  })
})
const folderOf = (path: string): string => path.split('/').slice(0, 2).join('/')
const pluginOf = (path: string): string => /^plugins\/([^/]+)\//.exec(path)?.[1] ?? ''
let left = all
for (let size = 0; size !== left.length;) {
  size = left.length
  const [from, to] = [new Set(left.map((one) => one.from)), new Set(left.map((one) => one.to))]
  left = left.filter((one) => from.has(one.to) && to.has(one.from))
}
t.same(left.map(({ arrow }) => arrow), [], 'no circles: these lie on one, or between two')
const needsOf = new Map(bundled.map(({ manifest }) => {
  const ids = Object.values({ ...manifest.consumes, ...manifest.consumesOptional }).map(({ id }) => id)
  const providers = bundled.flatMap(({ manifest: { name, provides = {} } }) =>
    Object.values(provides).some(({ id }) => ids.includes(id)) ? [name] : [])
  return [manifest.name, [...manifest.requires ?? [], ...providers]]
}))
const wrong = all.filter(({ from, to, isType }) => {
  const [own, other] = [pluginOf(from), pluginOf(to)]
  if (own === '' || own === other) return false
  if (to === OWN[own] || CLI.test(to)) return false
  // The dashboard page has no manifest; tidy.test.ts lists the modules that it may share with nodes.
  const isPage = from.startsWith('plugins/dashboard/page/')
  if (other === '') return !KERNEL.test(to) && !isPage
  const needed = needsOf.get(own)?.includes(other) === true || STATELESS.test(to)
  return !PLUGIN.test(to) || (!isType && !isPage && !needed)
}).map(({ arrow }) => arrow)
t.same(wrong.sort(), Object.keys(ALLOWED).sort(), 'plugins import by entry points what their manifests name')
const outside = all.filter(({ from, to }) => from.startsWith('kernel/') && to.startsWith('plugins/'))
t.same(outside.map(({ arrow }) => arrow), [
  'kernel/cli/main.ts -> plugins/index.ts',
  ...['frames/frames', 'index'].map((file) =>
    `kernel/testing/start-plugin.ts -> plugins/capabilities/${file}.ts`)
], 'the kernel imports the list of plugins when it runs, its test kit what serves capabilities: nothing else')
const shared = [...files].filter((file) => {
  const users = all.filter(({ from, to }) => to === file && folderOf(from) !== folderOf(file))
  return users.every(({ isType }) => isType) && new Set(users.map(({ from }) => folderOf(from))).size > 1
})
const loaded = all.filter(({ from, isType }) => shared.includes(from) && !isType)
t.same(loaded.map(({ arrow }) => arrow), [], 'what several folders import as types alone imports types alone')
