import { isVerbError, ok, plain, warn, type Checker } from '../../kernel/cli/index.js'
import type { PortView } from './port.js'

export const doctor: Checker = {
  async run ({ look }) {
    const view = await look<PortView>('/v1/wyoming')
    if (isVerbError(view) || (view.port === null && view.reason === null)) return []
    if (view.reason !== null) {
      return [warn('wyoming', `the Wyoming port cannot be opened: ${plain(view.reason)}`,
        'Choose another wyoming.port in svc.yaml.', { code: 'wyoming_closed' })]
    }
    const who = view.allow.length === 0 ? 'this machine' : view.allow.map(plain).join(', ')
    return [ok('wyoming', `port ${view.port ?? ''} serves speech without a token to ${who}`)]
  }
}
