// Writes the generated pages: `npm run docs`. With --check it only says which are stale (exit 1).
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import '../test/tools/typescript.mjs'

const { referencePages, withTables } = await import('./pages.js')
const { CLIENT_PAGES, withClients } = await import('./clients.js')
const { messagesPage } = await import('./messages.js')
const { replyTypes } = await import('./replies.js')
const { version } = await import('../kernel/boot/package.js')
const { bundled } = await import('../plugins/index.js')

const root = fileURLToPath(new URL('..', import.meta.url))
const read = (path) => readFileSync(join(root, path), 'utf8')
const pages = referencePages(bundled, version())
pages.set('docs/reference/replies.d.ts', await replyTypes(pages.get('docs/reference/openapi.json')))
const listed = execFileSync('git', ['ls-files', 'kernel', 'plugins'], { cwd: root, encoding: 'utf8' })
pages.set('docs/reference/messages.md', messagesPage(root,
  listed.split('\n').filter((path) => path.endsWith('.ts') && !/\/(test|page)\//.test(path))))
for (const { manifest } of bundled) {
  const path = `plugins/${manifest.name}/README.md`
  if (existsSync(join(root, path))) pages.set(path, withTables(read(path), manifest))
}
const clients = JSON.parse(read('docs/operations/clients.json'))
for (const path of Object.keys(CLIENT_PAGES)) pages.set(path, withClients(path, read(path), clients))
const stale = [...pages].filter(([path, text]) => !existsSync(join(root, path)) || read(path) !== text)
if (process.argv.includes('--check')) {
  for (const [path] of stale) process.stderr.write(`stale: ${path}; run npm run docs\n`)
  process.exitCode = stale.length > 0 ? 1 : 0
} else {
  for (const [path, text] of stale) {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), text)
    process.stdout.write(`wrote ${path}\n`)
  }
}
