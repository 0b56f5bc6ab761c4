import type { Manifest, VerbDecl } from '../api/plugin.js'

const waitOption =
  ['--wait [seconds]', 'keep trying while the node is starting or busy (60 s when no time is given)'] as const

const verbs: Readonly<Record<string, Omit<KnownVerb, 'name' | 'owner' | 'load'>>> = {
  up: {
    heading: 'Run a cluster',
    summary: 'run a node in the foreground',
    options: [
      ['--port <n>', 'port to listen on, 0 for any free one (api.port)'],
      ['--host <host>', 'address to listen on (api.host)'],
      ['--config <file>', 'svc.yaml to use (SVC_CONFIG; else svc.yaml in the home)'],
      ['--name <name>', 'name of the node for people (name)'],
      ['--join <token>', 'join the cluster of this token, or host:port of a member (better SVC_JOIN)'],
      ['--no-discovery', 'do not look for members on the local network (cluster.discovery)']
    ],
    examples: ['svc up', 'svc up --port 0 --json', 'svc up --home /var/lib/svc --host 0.0.0.0']
  },
  restart: {
    heading: 'Run a cluster',
    summary: 'restart the node that is asked, or another one, and wait until it is back',
    args: '[node]',
    options: [
      ['--wait [seconds]', 'wait at most so long, else exit 4 (60 s)'],
      ['--no-wait', 'ask for it and return']
    ],
    examples: ['svc restart', 'svc restart attic']
  },
  state: {
    heading: 'Watch it',
    summary: 'print the whole state of the cluster, now or as it was',
    options: [
      ['--at <when>', 'what is recorded of a span ago (10m), of a time, or of an index of `svc events`'],
      ['--follow', 'print the state, then every change of it: one JSON object of the changed keys per line'],
      waitOption
    ],
    examples: [
      'svc state', 'svc state --json | jq .nodeHealth', 'svc state --follow --json',
      'svc state --at 10m --json | jq .derived', 'svc state --at 2026-01-31T08:00Z'
    ]
  },
  'plugin ls': {
    heading: 'Set it up',
    summary: 'list plugins and whether they are on',
    options: [['--config <file>', 'svc.yaml to read']]
  },
  'plugin enable': {
    heading: 'Set it up',
    summary: 'switch a plugin on, at once where a node runs',
    args: '<name>',
    options: [['--config <file>', 'svc.yaml to change']]
  },
  'plugin disable': {
    heading: 'Set it up',
    summary: 'switch a plugin off, at once where a node runs',
    args: '<name>',
    options: [['--config <file>', 'svc.yaml to change']]
  },
  'config check': {
    heading: 'Set it up', local: true,
    summary: 'check svc.yaml and the SVC_* variables, naming every problem at once',
    options: [['--config <file>', 'svc.yaml to check']]
  },
  'config get': {
    heading: 'Set it up', local: true,
    summary: 'print the settings in use, or those under a key',
    args: '[key]',
    options: [['--origin', 'say where each value comes from'], ['--config <file>', 'svc.yaml to read']],
    examples: ['svc config get api.port', 'svc config get --origin']
  },
  'config set': {
    heading: 'Set it up', local: true,
    summary: 'change one setting in svc.yaml: from the next restart, a plugin\'s switch at once',
    args: '<key> <value>',
    options: [['--config <file>', 'svc.yaml to change']],
    examples: ['svc config set api.port 8080', 'svc config set access.local \'[read, invoke]\'']
  },
  'known ls': {
    heading: 'Set it up',
    summary: 'list the nodes whose keys this home knows, for https addresses'
  },
  'known rm': {
    heading: 'Set it up',
    summary: 'forget the key of a node, so that the next connection asks anew',
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
    summary: 'print what can follow the given words; used by completion scripts',
    args: '[words...]',
    hidden: true,
    open: true
  }
}

/** The kernel's own verbs; `loaders` has their modules. */
export const builtIn: readonly KnownVerb[] =
  Object.entries(verbs).map(([name, verb]) => ({ name, owner: 'kernel', ...verb }))

/** The subject of each group of verbs. */
export const groups: Groups = {
  plugin: 'write, install, list and switch plugins',
  config: 'check, read and change svc.yaml',
  engine: 'list, bring and remove builds of external engines',
  known: 'list and forget the keys of nodes at https addresses',
  docs: 'print what the code knows about itself',
  token: 'make, list and revoke tokens of this node'
}

export interface KnownVerb extends Omit<VerbDecl, 'load'> {
  /** Absent from built-in verbs. */
  readonly load?: VerbDecl['load']
  /** One word, or two for a verb in a group: `token create`. */
  readonly name: string
  readonly owner: string
  /** Left out of help and completion. */
  readonly hidden?: boolean
}

/** The subject of each group; the verbs of a group share their first word. */
export type Groups = Readonly<Record<string, string>>

/** All verbs, built-in ones first. Throws when two have one name, or one is also a group. */
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

/** The first words: verbs, and groups of verbs. */
export function topNames (verbs: readonly KnownVerb[]): string[] {
  return [...new Set(verbs.map((verb) => verb.name.split(' ')[0]!))]
}

export function inGroup (verbs: readonly KnownVerb[], group: string): KnownVerb[] {
  return verbs.filter((verb) => verb.name.startsWith(`${group} `))
}

/** The long flags of an option in commander's notation: `-o, --output <file>` gives `--output`. */
export function longFlag (flags: string): string | undefined { return /--[a-z][a-z0-9-]*/.exec(flags)?.[0] }

/** True when the option needs a value after it. */
export function takesValue (flags: string): boolean { return flags.includes('<') }
