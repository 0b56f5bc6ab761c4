import { serveStdio, StdioServerTransport } from '@modelcontextprotocol/server/stdio'
import { schemaChecker } from '../../../kernel/api/validate.js'
import { homeManifests, version, type Verb, type VerbContext } from '../../../kernel/cli/index.js'
import { delay, systemClock } from '../../../kernel/index.js'
import { MediaCache } from '../media.js'
import { createToolAdmission, createServer, listed, type Client, type Shared } from '../server.js'
import type { Server } from '@modelcontextprotocol/server'

/** Milliseconds between checks for changed tools. */
const CHANGE_POLL_MS = 5000

export default {
  async run (ctx) {
    const shared: Shared = {
      clock: systemClock, version: version(), media: new MediaCache(systemClock),
      toolAdmission: createToolAdmission(systemClock), checker: schemaChecker,
      manifests: () => homeManifests(ctx), declared: () => ctx.declared()
    }
    const client: Client = { id: 'cli', invokes: true, api: (signal) => bound(ctx, signal) }
    const servers = new Set<Server>()
    ctx.err.line(`MCP server on stdin and stdout for ${ctx.client.url}; it ends when stdin closes`)
    const ended = new Promise<void>((resolve) => {
      const transport = new StdioServerTransport(ctx.io.stdin, ctx.io.stdout)
      const handle = serveStdio(() => {
        const server = createServer(shared, client, true)
        servers.add(server)
        server.onclose = () => { servers.delete(server) }
        return server
      }, { transport, onerror: (error) => { ctx.err.line(error.message) } })
      ctx.io.stdin.once('close', resolve).once('end', resolve)
      ctx.signal.addEventListener('abort', () => { void handle.close().finally(resolve) }, { once: true })
    })
    await Promise.race([ended, notifyChanges(ctx, shared, client, servers)])
  }
} satisfies Verb

/** Ends requests to the node's API when the signal aborts. */
function bound ({ client }: VerbContext, outer: AbortSignal): ReturnType<Client['api']> {
  const signalOf = (signal: AbortSignal | undefined): AbortSignal =>
    signal === undefined ? outer : AbortSignal.any([outer, signal])
  return {
    json: (path, ask) => client.json(path, { ...ask, signal: signalOf(ask?.signal) }),
    open: (path, ask) => client.open(path, { ...ask, signal: signalOf(ask?.signal) })
  }
}

/** Notifies the client when the node, possibly after a restart, offers different tools. Never resolves. */
async function notifyChanges (
  ctx: VerbContext, shared: Shared, client: Client, servers: ReadonlySet<Server>
): Promise<never> {
  let before: string | undefined
  for (;;) {
    const now = JSON.stringify(await listed(shared, client, ctx.signal).catch(() => []))
    if (before !== undefined && now !== before) {
      for (const server of servers) server.sendToolListChanged().catch(() => {})
    }
    before = now
    await delay(systemClock, CHANGE_POLL_MS)
  }
}
