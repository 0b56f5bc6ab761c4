// Bundles a plugin's web page for browsers: modules in chunks that load when a page wants them, every name
// with a hash of its contents, each file also compressed, so that a node only has to send bytes.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import { build } from 'esbuild'

const root = fileURLToPath(new URL('../..', import.meta.url))
const from = join(root, 'plugins/dashboard/page')
const to = join(root, 'dist/plugins/dashboard/built')

const { outputFiles } = await build({
  absWorkingDir: from, entryPoints: ['main.tsx', 'style.css'], outdir: to, entryNames: '[name]-[hash]',
  chunkNames: '[name]-[hash]', bundle: true, splitting: true, format: 'esm', platform: 'browser',
  target: ['chrome120', 'firefox120', 'safari17'], minify: true, write: false,
  legalComments: 'none', logLevel: 'warning', tsconfig: join(from, 'tsconfig.json'),
  // Libraries made for React run on Preact; esbuild reads tsconfig's paths for our own files only.
  alias: {
    react: 'preact/compat', 'react-dom': 'preact/compat', 'react/jsx-runtime': 'preact/jsx-runtime'
  }
})
rmSync(to, { recursive: true, force: true })
mkdirSync(to, { recursive: true })

function write (name, contents) {
  writeFileSync(join(to, name), contents)
  const quality = { [constants.BROTLI_PARAM_QUALITY]: 11 }
  writeFileSync(join(to, `${name}.br`), brotliCompressSync(contents, { params: quality }))
  writeFileSync(join(to, `${name}.gz`), gzipSync(contents, { level: 9 }))
}

for (const { path, contents } of outputFiles) write(basename(path), Buffer.from(contents))
const names = outputFiles.map(({ path }) => basename(path))
const named = (pattern) => `page/${names.find((name) => pattern.test(name))}`
const html = readFileSync(join(from, 'index.html'), 'utf8')
  .replace('STYLE', named(/^style-.*css$/)).replace('SCRIPT', named(/^main-.*js$/))
write('index.html', Buffer.from(html))
