import { ownHome } from './client.js'
import { changeSetting, restartHint } from './installed.js'
import type { Installation } from '../plugins/installation.js'
import type { FromSchema } from '../api/schema.js'
import type { systemRoutes } from '../http/system-routes.js'
import type { VerbContext } from './verb.js'

type Switched = FromSchema<typeof systemRoutes.switchPlugin.reply>

export interface Effect {
  /** The node of this home does what was asked. */
  inEffect: boolean
  /** Why it does not yet; null where no node runs on this home. */
  why: string | null
  /** Whether a restart brings it. */
  restart: boolean
}

export function nodeRuns ({ home, client }: VerbContext, configFlag: unknown): boolean {
  return configFlag === undefined && ownHome(home, client.url) === home
}

/** Switches a plugin by this home's running node, else in the file. Throws CliError without any change. */
export async function switched (
  ctx: VerbContext, installation: Installation, name: string, enabled: boolean, configFlag: unknown
): Promise<Effect & { file: string }> {
  if (!nodeRuns(ctx, configFlag)) {
    const file = changeSetting(ctx, installation, `plugins.${name}.enabled`, enabled)
    return { file, inEffect: false, why: null, restart: true }
  }
  return { file: installation.file ?? `${ctx.home}/svc.yaml`, ...await turn(ctx, name, enabled) }
}

/** Asks the node to switch a plugin that its svc.yaml names. Throws CliError by its answer. */
export async function turn ({ client }: VerbContext, name: string, enabled: boolean): Promise<Effect> {
  const { in_effect: inEffect, why, restart_needed: restart } =
    await client.json<Switched>(`/v1/plugins/${encodeURIComponent(name)}`, { body: { enabled } })
  return { inEffect, why, restart }
}

export interface AtNode {
  name: string, version: string, summary: string, enabled: boolean, why: string | null
}

/** The plugins of another node, or of this home's node if it runs; else undefined. Throws CliError. */
export async function pluginsAtNode (ctx: VerbContext, configFlag: unknown): Promise<AtNode[] | undefined> {
  if (ctx.elsewhere === undefined && !nodeRuns(ctx, configFlag)) return undefined
  return (await ctx.client.json<{ plugins: AtNode[] }>('/v1/plugins')).plugins
}

/** Prints the remaining steps of a switch. */
export function tellEffect (ctx: VerbContext, { inEffect, why, restart }: Effect): void {
  if (inEffect) return
  if (why !== null) ctx.out.line(why)
  if (restart) for (const line of restartHint(ctx)) ctx.out.line(line)
}
