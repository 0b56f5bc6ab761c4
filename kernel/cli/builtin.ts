import type { Manifest, VerbDecl } from '../api/plugin.js'

const waitOption =
  ['--wait [seconds]', 'keep trying while the node is starting or busy (60 s by default)'] as const

const verbs: Readonly<Record<string, Omit<KnownVerb, 'name' | 'owner' | 'load'>>> = {
  up: {
    heading: 'Run a cluster',
    summary: 'run a node in the foreground',
    options: [
      ['--port <n>', 'port to listen on, 0 for any free one (api.port)'],
      ['--host <host>', 'address to listen on (api.host)'],
      ['--config <file>', 'svc.yaml to use (SVC_CONFIG; else svc.yaml in the home)'],
      ['--name <name>', 'display name of the node (name)'],
      ['--join <token>', 'join a cluster: its join token, or host:port of a member (better SVC_JOIN)'],
      ['--no-discovery', 'do not search the local network for members (cluster.discovery)']
    ],
    examples: ['svc up', 'svc up --port 0 --json', 'svc up --home /var/lib/svc --host 0.0.0.0']
  },
  restart: {
    heading: 'Run a cluster',
    summary: 'restart this node or another one, and wait until it is back',
    args: '[node]',
    options: [
      ['--wait [seconds]', 'longest wait, then exit 4 (60 s)'],
      ['--no-wait', 'request the restart and return']
    ],
    examples: ['svc restart', 'svc restart attic']
  },
  state: {
    heading: 'Watch it',
    summary: 'print the complete state of the cluster, now or at an earlier time',
    options: [
      ['--at <when>', 'the recorded state: some time ago (10m), at a time, or at an index of `svc events`'],
      ['--follow', 'print the state, then every change: one JSON object of the changed keys per line'],
      waitOption
    ],
    examples: [
      'svc state', 'svc state --json | jq .nodeHealth', 'svc state --follow --json',
      'svc state --at 10m --json | jq .derived', 'svc state --at 2026-01-31T08:00Z'
    ]
  },
  'plugin ls': {
    heading: 'Set it up',
    summary: 'list plugins and whether they are enabled',
    options: [['--config <file>', 'svc.yaml to read']]
  },
  'plugin enable': {
    heading: 'Set it up',
    summary: 'enable a plugin, at once if a node is running',
    args: '<name>',
    options: [['--config <file>', 'svc.yaml to change']]
  },
  'plugin disable': {
    heading: 'Set it up',
    summary: 'disable a plugin, at once if a node is running',
    args: '<name>',
    options: [['--config <file>', 'svc.yaml to change']]
  },
  'config check': {
    heading: 'Set it up', local: true,
    summary: 'check svc.yaml and the SVC_* variables, and report every problem',
    options: [['--config <file>', 'svc.yaml to check']]
  },
  'config get': {
    heading: 'Set it up', local: true,
    summary: 'print the settings in use, or those under a key',
    args: '[key]',
    options: [['--origin', 'show where each value comes from'], ['--config <file>', 'svc.yaml to read']],
    examples: ['svc config get api.port', 'svc config get --origin']
  },
  'config set': {
    heading: 'Set it up', local: true,
    summary: 'change a setting in svc.yaml, from the next restart; enable or disable a plugin at once',
    args: '<key> <value>',
    options: [['--config <file>', 'svc.yaml to change']],
    examples: ['svc config set api.port 8080', 'svc config set access.local \'[read, invoke]\'']
  },
  'known ls': { heading: 'Set it up', summary: 'list the known keys of nodes at https addresses' },
  'known rm': {
    heading: 'Set it up',
    summary: 'remove the known key of a node, so that the next connection asks again',
    args: '<place>',
    examples: ['svc known rm attic.lan:52415', 'svc known rm attic.lan']
  },
  completion: {
    heading: 'Set it up',
    summary: 'print a completion script for bash, zsh or fish',
    args: '<shell>',
    examples: [
      'source <(svc completion bash)', 'svc completion zsh > ~/.zfunc/_svc', 'svc completion fish | source'
    ]
  },
  'complete-words': {
    summary: 'print completions of the given words; used by completion scripts',
    args: '[words...]',
    hidden: true,
    open: true
  }
}

export const builtIn: readonly KnownVerb[] =
  Object.entries(verbs).map(([name, verb]) => ({ name, owner: 'kernel', ...verb }))

export const groups: Groups = {
  plugin: 'create, install, list, enable and disable plugins',
  config: 'check, read and change svc.yaml',
  engine: 'list, install and remove builds of external engines',
  known: 'list and remove the known keys of nodes at https addresses',
  docs: 'print reference lists of error reasons, events and authorities',
  token: 'create, list, rotate and revoke tokens'
}

export interface KnownVerb extends Omit<VerbDecl, 'load'> {
  /** Undefined for built-in verbs, whose modules are in loaders.ts. */
  readonly load?: VerbDecl['load']
  /** Verb name: one word, or two for a verb in a group, such as `token create`. */
  readonly name: string
  readonly owner: string
  /** True to omit the verb from help and completion. */
  readonly hidden?: boolean
}

/** Descriptions of verb groups, by the first word that a group's verbs share. */
export type Groups = Readonly<Record<string, string>>

/** All verbs, built-in ones first. Throws if two verbs share a name or a verb is named like a group. */
export function collectVerbs (builtIn: readonly KnownVerb[], plugins: readonly Manifest[]): KnownVerb[] {
  const added = plugins.flatMap((manifest) => Object.entries(manifest.verbs ?? {}).map(
    ([name, decl]) => ({ ...decl, name, owner: manifest.name })))
  const all = [...builtIn, ...added]
  const owners = new Map<string, string>()
  for (const { name, owner } of all) {
    const first = owners.get(name) ?? all.find((v) => v.name.startsWith(`${name} `))?.owner
    if (first !== undefined) {
      throw new Error(`the verb "${name}" is declared by both "${first}" and "${owner}"`)
    }
    owners.set(name, owner)
  }
  return all
}

export function topNames (verbs: readonly KnownVerb[]): string[] {
  return [...new Set(verbs.map((verb) => verb.name.split(' ')[0]!))]
}

export function inGroup (verbs: readonly KnownVerb[], group: string): KnownVerb[] {
  return verbs.filter((verb) => verb.name.startsWith(`${group} `))
}

/** The long flag of an option in commander's notation: `-o, --output <file>` gives `--output`. */
export function longFlag (flags: string): string | undefined { return /--[a-z][a-z0-9-]*/.exec(flags)?.[0] }

/** True if the option requires a value. */
export function takesValue (flags: string): boolean { return flags.includes('<') }
