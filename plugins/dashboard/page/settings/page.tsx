import { Tabs } from '../ui/tabs.js'
import { Devices } from './devices.js'
import { Members } from './members.js'
import { Plugins } from './plugins.js'
import { Tokens } from './tokens.js'
import { Values } from './values.js'

const TABS = {
  values: { title: 'Settings', component: Values },
  plugins: { title: 'Plugins', component: Plugins },
  tokens: { title: 'Tokens', component: Tokens },
  members: { title: 'Members', component: Members },
  devices: { title: 'Devices', component: Devices }
}

export const SettingsPage = () => <Tabs page="settings" label="Settings" tabs={TABS} framed />
