import type { ErrorDecl } from '../../kernel/index.js'

const final = (status: number, message: string, remedy: string): ErrorDecl =>
  ({ status, retryable: false, message, remedy })
const retry = (status: number, message: string, remedy: string, retryAfterSeconds: number): ErrorDecl =>
  ({ status, retryable: true, message, remedy, retryAfterSeconds })

/** Reasons this plugin answers with, beside the kernel's own. */
export const errors = {
  store_not_configured: final(503, 'No node of this cluster has a model store.',
    'On one node: `svc config set model_store.store_path ~/.svc/store`, then restart it.'),
  store_unreachable: retry(503, 'The store host cannot be reached.',
    'Bring it back; `svc nodes` shows which node is lost.', 5),
  model_not_found: final(404, 'No such model is in the store.',
    '`svc ls` lists the models; `svc pull MODEL` brings one.'),
  download_not_found: final(404, 'No such download is known.', '`svc downloads` lists them.'),
  download_running: final(409, 'The model is being downloaded with other options.',
    'Wait for it, or cancel it: `svc downloads cancel MODEL`.'),
  download_failed: final(502, 'The model could not be fetched.', '`svc downloads` shows the cause.'),
  import_refused: final(400, 'The folder cannot be taken into the store.',
    'The message says what is wrong with it.'),
  hub_disabled: final(409, 'This cluster does not fetch from a public hub.',
    'Set model_store.hub.enabled to true on the store host, or pull a folder.'),
  no_safe_fit: final(507, 'The model does not fit on the disk.',
    'Free space, or `svc purge` what is not in use.'),
  model_in_use: final(409, 'The model is in use.',
    'Stop what uses it first; `svc status` shows the instances.'),
  model_bundled: final(409, 'The model ships with svc.',
    'Disable the plugin that brings it to be rid of it.'),
  model_going: retry(503, 'The model is just being removed from this node.', 'Try again.', 1),
  card_exists: final(409, 'That name is taken by a model that is no custom one.', 'Choose another name.'),
  chunk_not_here: retry(409, 'This node has not got that part of the model yet.', 'Ask another source.', 1),
  range_not_satisfiable: final(416, 'The file has no such bytes.', 'Ask for a range within its size.')
} as const satisfies Record<string, ErrorDecl>
