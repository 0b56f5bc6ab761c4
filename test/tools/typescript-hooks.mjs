// Node's module hooks for the project's TypeScript: an import of `x.js` finds `x.ts`, and `x.ts` is loaded
// from .tap/js, to which each file is compiled once. A compiled file is fresh while it has the modification
// time of its source.
import { mkdirSync, readFileSync, renameSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../..', import.meta.url))
const ours = new RegExp(`^${new URL('../../', import.meta.url).href}(kernel|plugins|test|docs)/`)

const look = (path) => statSync(path, { throwIfNoEntry: false })

/** The JavaScript for one of the project's .ts files; its stack traces name the lines of the source. */
export async function compiled (path) {
  const to = join(root, '.tap/js', `${relative(root, path)}.js`)
  const { atime, mtime } = statSync(path)
  if (look(to)?.mtime.getTime() === mtime.getTime()) return readFileSync(to, 'utf8')
  const { transform } = await import('esbuild')
  const { code } = await transform(readFileSync(path, 'utf8'), {
    loader: 'ts', sourcefile: path, sourcemap: 'inline', sourcesContent: false, target: 'node20',
    tsconfigRaw: { compilerOptions: { verbatimModuleSyntax: true } }
  })
  mkdirSync(dirname(to), { recursive: true })
  // Two processes may compile a file at once, so each writes a temporary file and renames it when complete.
  const aside = `${to}.${process.pid}`
  writeFileSync(aside, code)
  utimesSync(aside, atime, mtime)
  renameSync(aside, to)
  return code
}

export function resolve (specifier, context, next) {
  // The entry module of a worker thread has an absolute URL and no parent.
  const own = ours.test(context.parentURL) || ours.test(specifier)
  if (/^(\.|file:).*\.js$/.test(specifier) && own) {
    const url = new URL(`${specifier.slice(0, -2)}ts`, context.parentURL)
    if (look(url) !== undefined) return { url: url.href, format: 'module', shortCircuit: true }
  }
  return next(specifier, context)
}

export async function load (url, context, next) {
  if (!url.endsWith('.ts') || !ours.test(url)) return next(url, context)
  return { format: 'module', shortCircuit: true, source: await compiled(fileURLToPath(url)) }
}
