import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import { Parser } from 'tar'
import { showBytes, type Verb, type VerbContext } from '../../../kernel/cli/index.js'

const UNPACKED_BYTES = 64 * 1024 ** 2

export default {
  async run (ctx, _args, options) {
    ctx.err.update('collecting')
    const answer = await ctx.client.open('/v1/diagnostics/node/capture',
      { method: 'POST', body: {}, accept: 'application/gzip' })
    const parts: Uint8Array[] = []
    for await (const part of answer.bytes) parts.push(part)
    const bytes = Buffer.concat(parts)
    ctx.err.end()
    const files = await listed(ctx, bytes)
    const name = nameIn(String(answer.headers['content-disposition'] ?? ''))
    const path = options['output'] as string | undefined ?? name
    await save(ctx, path, bytes)
    show(ctx, path, bytes, files)
  }
} satisfies Verb

/** The file name in the Content-Disposition header; a default if it could contain a path. */
function nameIn (disposition: string): string {
  return /filename="([A-Za-z0-9._-]{1,120})"/.exec(disposition)?.[1] ?? 'svc-capture.tar.gz'
}

interface Listed { name: string, bytes: number }

async function listed (ctx: VerbContext, bytes: Buffer): Promise<Listed[]> {
  const files: Listed[] = []
  try {
    const archive = await promisify(gunzip)(bytes, { maxOutputLength: UNPACKED_BYTES })
    await new Promise<void>((resolve, reject) => {
      new Parser({
        strict: true,
        onReadEntry: (entry) => {
          files.push({ name: entry.path, bytes: entry.size })
          entry.resume()
        }
      }).on('end', resolve).on('error', reject).end(archive)
    })
    return files
  } catch {
    throw ctx.fail(1, 'the answer of the node is not a bundle; does it run the same version?')
  }
}

async function save (ctx: VerbContext, path: string, bytes: Uint8Array): Promise<void> {
  const sink = ctx.sink(path)
  try {
    await sink.write(bytes)
    await sink.keep()
  } catch (error) {
    await sink.drop()
    throw error
  }
}

function show ({ out, err }: VerbContext, path: string, bytes: Uint8Array, files: readonly Listed[]): void {
  if (out.json && path !== '-') {
    out.value({ file: path, bytes: bytes.byteLength, files })
    return
  }
  // With `-`, stdout carries the bundle, so the summary goes to stderr.
  const line = path === '-' ? err.line : out.line
  line(`${path === '-' ? 'the bundle' : path}: ${showBytes(bytes.byteLength)}, ${files.length} files`)
  for (const file of files) line(`  ${file.name.split('/').at(-1) ?? file.name}  ${showBytes(file.bytes)}`)
  line('It contains no prompts, texts, tokens or keys, but names, addresses and paths: check it ' +
    'before you make it public.')
}
