import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { programIn, shellWord, type Verb, type VerbContext } from '../../../kernel/cli/index.js'
import { packageRoot } from '../../../kernel/index.js'
import { findConfig } from '../../../kernel/installing.js'

const NAME = /^[a-z][a-z0-9]*(-[a-z0-9]+)*$/

export default {
  async run (ctx, [name], options) {
    if (!NAME.test(name!)) {
      throw ctx.fail(2, `"${name!}": a plugin name consists of lower-case letters, digits and single dashes`)
    }
    if ((await ctx.plugins()).some(({ manifest }) => manifest.name === name)) {
      throw ctx.fail(2, `"${name!}" is the name of a plugin that ships with svc; choose another`)
    }
    const folder = resolve(ctx.io.cwd, (options['dir'] as string | undefined) ?? name!)
    if (existsSync(folder) && readdirSync(folder).length > 0) {
      throw ctx.fail(1, `${folder} is not empty; choose another with --dir`)
    }
    const files = pluginFiles(name!, pathBetween(folder, packageRoot()))
    try {
      write(folder, files)
    } catch (error) {
      throw ctx.fail(1, `cannot write ${folder}: ${(error as Error).message}`)
    }
    report(ctx, name!, folder, Object.keys(files))
  }
} satisfies Verb

function write (folder: string, files: Record<string, string>): void {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), text)
  }
  // Links to packages in the checkout, so that the test runs without `npm install`.
  mkdirSync(join(folder, 'node_modules/.bin'), { recursive: true })
  symlinkSync(packageRoot(), join(folder, 'node_modules', 'svc'), 'dir')
  if (!existsSync(TAP)) return
  symlinkSync(TAP, join(folder, 'node_modules', 'tap'), 'dir')
  symlinkSync('../tap/dist/esm/run.mjs', join(folder, 'node_modules/.bin/tap'))
}

/** Folder of the test runner, which an installed svc does not include. */
const TAP = join(packageRoot(), 'node_modules/tap')

/** A path relative to `from`, such as `./demo/index.js`; absolute if it would need more than three `..`. */
function pathBetween (from: string, to: string): string {
  const path = relative(from, to)
  const steps = path.split('/').filter((part) => part === '..').length
  return steps > 3 ? to : path.startsWith('.') ? path : `./${path}`
}

function report (ctx: VerbContext, name: string, folder: string, files: string[]): void {
  const config = findConfig({ env: ctx.io.env, home: ctx.home }) ?? join(ctx.home, 'svc.yaml')
  const module = pathBetween(dirname(config), join(folder, 'index.js'))
  if (ctx.out.json) return ctx.out.value({ plugins: [{ name, folder, files, config, module }] })
  const from = relative(ctx.io.cwd, folder) || '.'
  ctx.out.line([
    `${folder}: ${files.join(', ')}`,
    '',
    'Test it:',
    `  cd ${shellWord(from)} && ${existsSync(TAP) ? '' : 'npm install && '}npm test`,
    '',
    `Add to ${config}:`,
    '  plugins:',
    `    ${name}:`,
    `      module: ${JSON.stringify(module)}`,
    '',
    'Restart the node, then:',
    `  ${programIn(ctx.io.cwd)} call ${name}@1.0.0 --text "good morning"`
  ].join('\n'))
}

/** Folder of the template, a working plugin named `demo`. */
const TEMPLATE = new URL('../data/plugin/', import.meta.url)

function pluginFiles (name: string, svcPath: string): Record<string, string> {
  const paths = ['package.json', 'index.js', 'test/index.test.js', 'README.md']
  const files = paths.map((path) => [path, readFileSync(new URL(path, TEMPLATE), 'utf8')
    .replaceAll('demo', name).replace('"file:SVC"', () => JSON.stringify(`file:${svcPath}`))])
  return { ...Object.fromEntries(files) as Record<string, string>, '.gitignore': 'node_modules/\n.tap/\n' }
}
