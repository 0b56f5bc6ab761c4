// Bundles a plugin's web page for browsers: modules in chunks that load when a page wants them, every name
// with a hash of its contents, each file also compressed, so that a node only has to send bytes.
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import { build } from 'esbuild'

const root = fileURLToPath(new URL('../..', import.meta.url))
const from = join(root, 'plugins/dashboard/page')
const to = join(root, 'dist/plugins/dashboard/built')
/** A node that starts meanwhile finds the old page or the new one, whole. */
const making = `${to}.making`

const { outputFiles, metafile } = await build({
  absWorkingDir: from, entryPoints: ['main.tsx', 'style.css'], outdir: to, entryNames: '[name]-[hash]',
  chunkNames: '[name]-[hash]', bundle: true, splitting: true, format: 'esm', platform: 'browser',
  target: ['chrome120', 'firefox120', 'safari17'], minify: true, write: false, metafile: true,
  legalComments: 'none', logLevel: 'warning', tsconfig: join(from, 'tsconfig.json'),
  // Libraries made for React run on Preact; esbuild reads tsconfig's paths for our own files only.
  alias: {
    react: 'preact/compat', 'react-dom': 'preact/compat', 'react/jsx-runtime': 'preact/jsx-runtime'
  }
})
rmSync(making, { recursive: true, force: true })
mkdirSync(making, { recursive: true })

function write (name, contents) {
  writeFileSync(join(making, name), contents)
  const quality = { [constants.BROTLI_PARAM_QUALITY]: 11 }
  writeFileSync(join(making, `${name}.br`), brotliCompressSync(contents, { params: quality }))
  writeFileSync(join(making, `${name}.gz`), gzipSync(contents, { level: 9 }))
}

/** The licence of each package whose code is in the bundle, with its text. */
function licences () {
  const found = Object.keys(metafile.inputs).map((path) => /.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path))
  const matches = found.filter((match) => match !== null)
  const folders = new Map(matches.map(([path, name]) => [name, join(from, path)]))
  return [...folders].sort(([a], [b]) => a < b ? -1 : 1).map(([name, folder]) => {
    const { version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
    const file = readdirSync(folder).find((one) => /^licen[cs]e/i.test(one))
    const text = file === undefined ? '' : readFileSync(join(folder, file), 'utf8').trim()
    return `${name} ${version}, ${license}\n\n${text}\n`
  }).join(`\n${'-'.repeat(78)}\n\n`)
}

writeFileSync(join(making, 'LICENCES.txt'), licences())
for (const { path, contents } of outputFiles) write(basename(path), Buffer.from(contents))
const names = outputFiles.map(({ path }) => basename(path))
const named = (pattern) => `page/${names.find((name) => pattern.test(name))}`
const html = readFileSync(join(from, 'index.html'), 'utf8')
  .replace('STYLE', named(/^style-.*css$/)).replace('SCRIPT', named(/^main-.*js$/))
write('index.html', Buffer.from(html))
rmSync(to, { recursive: true, force: true })
renameSync(making, to)
