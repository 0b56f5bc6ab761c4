// Bundles svc, since thirty files load in less than half the time of a thousand. Shared code goes into
// chunks, so that third-party plugins that import `svc/plugin` use the same copy as svc. tsc makes the type
// declarations.
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { build } from 'esbuild'
import { root } from './paths.mjs'

/** Modules that are started or imported by path, so each remains a separate file. */
export const ENTRIES = [
  'kernel/cli/main', 'kernel/cli/index', 'kernel/index', 'kernel/testing/index', 'kernel/boot/package',
  'plugins/index', 'plugins/public', 'plugins/runners/service', 'plugins/event-log/service',
  'plugins/runners/process/host', 'plugins/runners/process/watchdog', 'plugins/chat/embed/thread',
  'plugins/chat/guide/thread', 'kernel/untrusted/process', 'plugins/staging/cards/derive',
  'plugins/chat/embed/card-reader', 'plugins/llama-cpp/cards/index', 'plugins/capabilities-tts/card-reader',
  'plugins/chat/embed/index', 'plugins/llama-cpp/server/index',
  'plugins/llama-cpp/embedded/index', 'plugins/capabilities-tts/engine/index',
  'plugins/capabilities-stt/card-reader', 'plugins/capabilities-stt/engine/index'
]
/** Not bundled: native code, packages found by path, and LGPL and MPL packages, as those licences require. */
const EXTERNAL = ['onnxruntime-node', 'sqlite3', 'piper-phonemize', 'systeminformation', 'lamejs',
  'mediabunny', '@libav.js/variant-fat', 'mpg123-decoder']
const BANNER = `import { createRequire as createRequireOfBundle } from 'node:module'
const require = createRequireOfBundle(import.meta.url)
const builtUrl = import.meta.url.replace(/(.*\\/dist\\/[^/]+\\/).*/, '$1')`

/** Makes import.meta.url point into the build folder whichever chunk contains the code. */
const ownUrls = {
  name: 'own-urls',
  setup ({ onLoad }) {
    onLoad({ filter: /\.ts$/ }, ({ path }) => {
      const own = relative(root, path)
      if (!/^(kernel|plugins)\//.test(own)) return
      const text = readFileSync(path, 'utf8')
      for (const [, spec] of text.matchAll(/new URL\('(\.[^']*\.js)', import\.meta\.url\)/g)) {
        const named = join(dirname(own), spec).replace(/\.js$/, '')
        if (!ENTRIES.includes(named)) throw new Error(`${own} names ${named}, no entry of the bundle`)
      }
      const url = `(builtUrl + ${JSON.stringify(own.replace(/\.ts$/, '.js'))})`
      return { loader: 'ts', contents: text.replaceAll('import.meta.url', url) }
    })
  }
}

/** Keeps the named exports of CommonJS packages in `import()`; bundling would leave only a default export. */
const namesOfCommonJs = {
  name: 'names-of-commonjs',
  setup ({ onLoad, onResolve, resolve }) {
    onResolve({ filter: /^[@a-z]/ }, async ({ path, kind, resolveDir, importer, pluginData }) => {
      if (kind !== 'dynamic-import' || pluginData === 'again' || EXTERNAL.includes(path)) return undefined
      const found = await resolve(path, { kind, resolveDir, importer, pluginData: 'again' })
      if (found.external || !isCommonJs(found.path)) return found
      return { path: found.path, namespace: 'commonjs', pluginData: { path, resolveDir } }
    })
    onLoad({ filter: /./, namespace: 'commonjs' }, ({ pluginData: { path, resolveDir } }) => {
      const names = Object.keys(createRequire(join(resolveDir, 'x.js'))(path))
        .filter((name) => /^[A-Za-z_$][\w$]*$/.test(name) && name !== 'default')
      return { contents: `export { ${names.join(', ')} } from '${path}'`, resolveDir }
    })
  }
}

/** Whether Node treats a file as CommonJS: by its extension, else by the nearest package.json. */
function isCommonJs (path) {
  if (/\.[cm]js$/.test(path)) return path.endsWith('.cjs')
  let folder = dirname(path)
  while (!existsSync(join(folder, 'package.json'))) folder = dirname(folder)
  return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')).type !== 'module'
}

/** esbuild options. `outdir` is a placeholder, since `publish` writes the outputs. */
export const options = {
  absWorkingDir: root, entryPoints: ENTRIES.map((entry) => `${entry}.ts`), outbase: '.', outdir: 'dist/build',
  chunkNames: 'chunks/[name]-[hash]', bundle: true, splitting: true, format: 'esm', platform: 'node',
  target: 'node20', sourcemap: 'linked', sourcesContent: false, legalComments: 'none',
  external: EXTERNAL, banner: { js: BANNER }, plugins: [ownUrls, namesOfCommonJs],
  metafile: true, write: false, logLevel: 'warning'
}

export const bundle = async () => await build(options)
