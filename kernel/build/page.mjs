// Bundles a plugin's web page for browsers: chunks load on demand, file names carry a hash of the contents,
// and each file is also stored compressed, so that a node does not compress at run time.
import { readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import { build } from 'esbuild'
import { licences } from './licences.mjs'
import { root } from './paths.mjs'

const from = join(root, 'plugins/dashboard/page')
const options = {
  absWorkingDir: from, entryPoints: ['main.tsx', 'style.css'], outdir: 'dist', entryNames: '[name]-[hash]',
  chunkNames: '[name]-[hash]', bundle: true, splitting: true, format: 'esm', platform: 'browser',
  target: ['chrome120', 'firefox120', 'safari17'], minify: true, write: false, metafile: true,
  legalComments: 'none', logLevel: 'warning', tsconfig: join(from, 'tsconfig.json'),
  // Aliases for React libraries, since esbuild applies tsconfig's paths to this repository's files only.
  alias: { react: 'preact/compat', 'react-dom': 'preact/compat', 'react/jsx-runtime': 'preact/jsx-runtime' }
}

function compressed (name, contents) {
  const quality = { [constants.BROTLI_PARAM_QUALITY]: 11 }
  return [
    [name, contents], [`${name}.br`, brotliCompressSync(contents, { params: quality })],
    [`${name}.gz`, gzipSync(contents, { level: 9 })]
  ]
}

/** The page's files as pairs of name and contents. */
export async function page () {
  const { outputFiles, metafile } = await build(options)
  const names = outputFiles.map(({ path }) => basename(path))
  const named = (pattern) => `page/${names.find((name) => pattern.test(name))}`
  const html = readFileSync(join(from, 'index.html'), 'utf8')
    .replace('STYLE', named(/^style-.*css$/)).replace('SCRIPT', named(/^main-.*js$/))
  return [
    ['LICENCES.txt', licences(from, Object.keys(metafile.inputs))],
    ...outputFiles.flatMap(({ path, contents }) => compressed(basename(path), Buffer.from(contents))),
    ...compressed('index.html', Buffer.from(html))
  ]
}
