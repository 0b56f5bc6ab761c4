import { existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { findConfig } from '../../config/file.js'
import { packageRoot } from '../../boot/package.js'
import type { Verb, VerbContext } from '../verb.js'

const NAME = /^[a-z][a-z0-9]*(-[a-z0-9]+)*$/

export default {
  async run (ctx, [name], options) {
    if (!NAME.test(name!)) {
      throw ctx.fail(2, `"${name!}": a plugin's name is small letters, digits and single dashes`)
    }
    if ((await ctx.plugins()).some(({ manifest }) => manifest.name === name)) {
      throw ctx.fail(2, `"${name!}" is the name of a plugin that ships with svc; take another`)
    }
    const folder = resolve(ctx.io.cwd, (options['dir'] as string | undefined) ?? name!)
    if (existsSync(folder) && readdirSync(folder).length > 0) {
      throw ctx.fail(1, `${folder} is not empty; name another with --dir`)
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
  // The link npm would make for the file: dependency, so that the test runs at once.
  mkdirSync(join(folder, 'node_modules'))
  symlinkSync(packageRoot(), join(folder, 'node_modules', 'svc'), 'dir')
}

/** `./demo/index.js` when the module lies below the folder of svc.yaml or near it, else its absolute path. */
function pathBetween (from: string, to: string): string {
  const path = relative(from, to)
  const steps = path.split('/').filter((part) => part === '..').length
  return steps > 3 ? to : path.startsWith('.') ? path : `./${path}`
}

function report (ctx: VerbContext, name: string, folder: string, files: string[]): void {
  const config = findConfig({ env: ctx.io.env, home: ctx.home }) ?? join(ctx.home, 'svc.yaml')
  const module = pathBetween(dirname(config), join(folder, 'index.js'))
  if (ctx.out.json) {
    ctx.out.value({ plugins: [{ name, folder, files, config, module }] })
    return
  }
  const from = relative(ctx.io.cwd, folder) || '.'
  ctx.out.line([
    `${folder}: ${files.join(', ')}`,
    '',
    'Test it:',
    `  cd ${from} && npm test`,
    '',
    `Add to ${config}:`,
    '  plugins:',
    `    ${name}:`,
    `      module: ${JSON.stringify(module)}`,
    '',
    'Start the node again, then:',
    `  svc call ${name}@1.0.0 --text "good morning"`
  ].join('\n'))
}

/** The files of a new plugin project, by path in its folder. Pure. */
function pluginFiles (name: string, svcPath: string): Record<string, string> {
  return {
    'package.json': packageJson(name, svcPath),
    'index.js': indexJs(name),
    'test/index.test.js': testJs(name),
    'README.md': readme(name),
    '.gitignore': 'node_modules/\n'
  }
}

function packageJson (name: string, svcPath: string): string {
  return `${JSON.stringify({
    name: `svc-plugin-${name}`,
    version: '0.1.0',
    private: true,
    type: 'module',
    exports: './index.js',
    scripts: { test: 'node --test test/*.test.js' },
    engines: { node: '>=20.19' },
    dependencies: { svc: `file:${svcPath}` }
  }, null, 2)}\n`
}

function indexJs (name: string): string {
  return `import { definePlugin } from 'svc/plugin'

// The manifest is data: from it come the types of start(), the checks, the docs and the listing.
export default definePlugin({
  name: '${name}',
  version: '0.1.0',
  kernel: '^1.0.0',
  summary: 'Gives a text back word by word.',
  config: {
    type: 'object',
    additionalProperties: false,
    properties: {
      shout: { type: 'boolean', default: false, description: 'Answers in capital letters.' }
    }
  },
  capabilities: {
    echo: {
      id: '${name}',
      version: '1.0.0',
      title: 'Echo',
      description: 'Gives a text back, one chunk per word.',
      io_mode: 'server_streaming',
      input_schema: {
        type: 'object',
        additionalProperties: false,
        required: ['text'],
        properties: { text: { type: 'string', minLength: 1, maxLength: 10000 } }
      },
      output_chunk_schema: {
        type: 'object',
        additionalProperties: false,
        required: ['word', 'index'],
        properties: { word: { type: 'string' }, index: { type: 'integer', minimum: 0 } }
      },
      annotations: { stability: 'experimental' }
    }
  }
}, (ctx) => ({
  invoke: {
    // Input and chunks have the types that the schemas say. call.signal aborts when the caller goes away.
    async * echo ({ text }, call) {
      for (const [index, word] of text.trim().split(/\\s+/).entries()) {
        if (call.signal.aborted) return
        yield { payload: { word: ctx.config.shout ? word.toUpperCase() : word, index } }
      }
    }
  }
}))
`
}

function testJs (name: string): string {
  return `import assert from 'node:assert/strict'
import test from 'node:test'
import { startPlugin } from 'svc/testing'
import plugin from '../index.js'

/** Calls the capability over HTTP, as a client does, and returns the payloads of its chunks. */
async function echo (rig, payload) {
  const listing = (await rig.inject({ url: '/v1/capabilities' })).json()
  const answer = await rig.inject({
    method: 'POST',
    url: '/v1/capabilities/stream',
    headers: { accept: 'text/event-stream' },
    payload: {
      capability_id: '${name}',
      version: '1.0.0',
      descriptor_revision: listing.revisions['${name}@1.0.0'],
      payload
    }
  })
  const frames = answer.body.split('\\n').filter((line) => line.startsWith('data: '))
    .map((line) => JSON.parse(line.slice(6)))
  const chunks = frames.filter((frame) => frame.kind === 'chunk').map((frame) => frame.payload)
  return { status: answer.statusCode, last: frames.at(-1)?.kind, chunks }
}

test('one chunk per word, then the end', async (t) => {
  const { status, last, chunks } = await echo(await startPlugin(t, plugin), { text: 'good morning' })
  assert.equal(status, 200)
  assert.deepEqual(chunks, [{ word: 'good', index: 0 }, { word: 'morning', index: 1 }])
  assert.equal(last, 'completed')
})

test('its setting in svc.yaml is used', async (t) => {
  const { chunks } = await echo(await startPlugin(t, plugin, { config: { shout: true } }), { text: 'hey' })
  assert.deepEqual(chunks, [{ word: 'HEY', index: 0 }])
})

test('a payload off the schema is refused', async (t) => {
  const { status } = await echo(await startPlugin(t, plugin), { text: '' })
  assert.equal(status, 400)
})
`
}

function readme (name: string): string {
  return `# ${name}

A plugin for svc. It adds the capability \`${name}@1.0.0\`, which gives a text back word by word: put your own
work in its place.

- \`index.js\`: the manifest (what the plugin declares) and \`start\` (what it does).
- \`test/index.test.js\`: the plugin alone on the real kernel, called over HTTP.

## Test it

    node --test test/*.test.js

\`node_modules/svc\` is a link to the svc that made this project. \`npm install\` makes it again from
\`package.json\`.

## Run it

Add to \`svc.yaml\`:

    plugins:
      ${name}:
        module: PATH/TO/THIS/FOLDER/index.js

Start the node again, then:

    svc capabilities ${name}@1.0.0
    svc call ${name}@1.0.0 --text "good morning"
`
}
