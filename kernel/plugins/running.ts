import { kernelError, type SvcError } from '../api/errors.js'
import { schemaChecker } from '../api/validate.js'
import { OpenRequests } from '../http/open-requests.js'
import { commandName, startOne, type Contributed, type LiveContext } from './context.js'
import type { Plugin } from '../api/plugin.js'
import type { Assembly, RunningPlugin } from './assembly.js'

/** Grace period in ms for open requests and calls when their plugin stops. */
const END_MS = 1000

/** Starts a plugin and registers what it contributes; on failure, undoes everything and throws. */
export async function run (plugin: Plugin, live: LiveContext, kernel: Assembly): Promise<RunningPlugin> {
  const { manifest } = plugin
  const undo: (() => void)[] = []
  const dispose = async (): Promise<void> => {
    for (let next = undo.pop(); next !== undefined; next = undo.pop()) next()
    await live.dispose()
  }
  try {
    const given = await startOne(plugin, live, kernel.options.cluster)
    put(plugin, given, kernel, undo)
    const routes = given.routes.map(([name, handler]) =>
      ({ owner: manifest.name, name, decl: manifest.routes![name]!, handler }))
    return { plugin, routes, work: new OpenRequests(), effects: live.effects, kept: { ...live.read },
      dispose }
  } catch (error) {
    await dispose()
    throw error
  }
}

function put ({ manifest }: Plugin, given: Contributed, kernel: Assembly, undo: (() => void)[]): void {
  const { options, services, views, capabilities } = kernel
  for (const [name, handler] of given.commands) {
    const full = commandName(manifest.name, name)
    const problemOf = schemaChecker(manifest.commands![name]!.args)
    // The sending node may run another version or be malicious, so its arguments are validated.
    undo.push(options.cluster.commands.handle(full, (args, from) => {
      const problem = problemOf(args)
      const { cluster, node } = options
      if (problem === null) {
        return handler(args, {
          installId: from ?? node.installId,
          vouched: (given) => from === undefined ? [...given] : cluster.vouched(from, given)
        })
      }
      throw kernelError('invalid_request', `The arguments of the command "${full}": ${problem}`)
    }))
  }
  for (const [name, handler] of given.invoke) {
    undo.push(capabilities.register(manifest.name, manifest.capabilities![name]!, handler))
  }
  for (const [key, service] of given.services) {
    const { id } = manifest.provides![key]!
    if (options.services.has(id)) continue
    services.set(id, service)
    undo.push(() => { services.delete(id) })
  }
  for (const [key, view] of given.state) {
    views.set(key, view)
    undo.push(() => { views.delete(key) })
  }
}

/**
 * Stops a plugin whose routes have been removed from the server: ends open work with a typed error, then
 * undoes the plugin's effects. `why` creates the error for each request.
 */
export async function stopOne (running: RunningPlugin, kernel: Assembly, why: () => SvcError): Promise<void> {
  const { clock } = kernel.options
  running.work.stop(why)
  await Promise.all([
    running.work.ended(clock, END_MS), kernel.capabilities.end(running.plugin.manifest.name, why)
  ])
  await running.dispose()
}
