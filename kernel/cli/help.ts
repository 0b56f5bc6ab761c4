import { exitCodeMeanings } from './errors.js'

/** Options that every verb has, in commander's notation. */
export const globalOptions: readonly (readonly [flags: string, description: string])[] = [
  ['--json', 'answer with JSON on stdout'],
  ['--url <url>', 'address of the node (SVC_URL; else the node of the home, else http://127.0.0.1:52415)'],
  ['--token <token>', 'token to send (SVC_TOKEN; else the operator token of the home, to this host only)'],
  ['--fingerprint <pin>', 'expected key fingerprint of an https node (SVC_FINGERPRINT); stored as known'],
  ['--home <dir>', 'home directory (SVC_HOME; else ~/.svc)']
]

const variables: readonly (readonly [name: string, meaning: string])[] = [
  ['SVC_URL', 'address of the node, as --url'],
  ['SVC_TOKEN', 'token to send, as --token'],
  ['SVC_FINGERPRINT', 'fingerprint of the node\'s key, as --fingerprint'],
  ['SVC_HOME', 'home directory, as --home'],
  ['SVC_CONFIG', 'svc.yaml to use, as --config'],
  ['SVC_<SETTING>', 'overrides a setting of svc.yaml: SVC_API_PORT is api.port'],
  ['SVC_NO_LAUNCHER', '1: `svc up` runs without its launcher; /admin/restart then ends the node'],
  ['SVC_TELEMETRY_DISABLE', '1: this node does not report its memory, load and disk to other nodes'],
  ['SVC_DEBUG', '1: show the stack of unexpected errors of the command line'],
  ['NO_COLOR', 'no colours']
]

const columns = (rows: readonly (readonly [left: string | number, right: string])[]): string => {
  const width = Math.max(...rows.map(([left]) => String(left).length))
  return rows.map(([left, right]) => `  ${String(left).padEnd(width)}  ${right}`).join('\n')
}

export const helpTopics: Readonly<Record<string, () => string>> = {
  'exit-codes': () => `Exit codes of svc:\n${columns(exitCodeMeanings)}`,
  environment: () => `Environment variables:\n${columns(variables)}`
}
