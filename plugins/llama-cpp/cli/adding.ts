/** Helpers shared by the verbs that install llama.cpp. */
import { readdir } from 'node:fs/promises'
import { outgoingDispatcher } from '../../../kernel/index.js'
import { readSetting, showBytes, type VerbContext } from '../../../kernel/cli/index.js'
import { BuildError } from '../builds/release.js'
import type { AddParts } from '../builds/add.js'

/** Timeout in ms for connecting, for the response headers, and between chunks. */
const PATIENCE_MS = 60_000

type Wanted = Pick<AddParts, 'files' | 'tag' | 'backend' | 'sha256'>

/** Calls `work` with the options and the HTTP dispatcher for installing a build in the command's home. */
export async function withParts<T> (
  ctx: VerbContext, wanted: Wanted, work: (parts: AddParts) => Promise<T>
): Promise<T> {
  const base = String(await readSetting(ctx, 'engines.url'))
  const own = URL.canParse(base) ? new URL(base).hostname.replace(/^\[|\]$/g, '') : ''
  const dispatcher = await outgoingDispatcher((host) => host === own ? 'named' : 'public', {
    secure: true, connectMs: PATIENCE_MS, headersTimeout: PATIENCE_MS, bodyTimeout: PATIENCE_MS
  })
  try {
    return await work({
      ...wanted, home: ctx.home, signal: ctx.signal, dispatcher, base, env: ctx.io.env, now: () => new Date(),
      machine: { platform: process.platform, arch: process.arch },
      nvidia: (await readdir('/dev').catch(() => [])).some((name) => /^nvidia\d+$/.test(name)),
      progress: progressOf(ctx)
    })
  } finally {
    ctx.err.end()
    void dispatcher.destroy()
  }
}

/** Converts a BuildError to a CliError. */
export async function withErrorText<T> (ctx: VerbContext, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof BuildError) throw ctx.fail(error.wrong ? 2 : 1, error.message)
    throw error
  }
}

/** Shows download progress: on one line in a terminal, otherwise a line for every 10%. Silent with --json. */
function progressOf ({ io, out, err }: VerbContext): (name: string, bytes: number, total: number) => void {
  let shown = ''
  return (name, bytes, total) => {
    if (out.json) return
    const percent = Math.floor(bytes / total * 100)
    const text = `${name}  ${percent} %  ${showBytes(bytes)}/${showBytes(total)}`
    const step = `${name} ${Math.floor(percent / 10)}`
    if (io.stderr.isTTY === true) err.update(text)
    else if (step !== shown) err.line(text)
    shown = step
  }
}
