//! Setup of the sessions of a tab: of its main frame, and of frames in other processes.

use cdp::protocol::emulation::{SetDeviceMetricsOverride, SetFocusEmulationEnabled};
use cdp::protocol::page::{SetInterceptFileChooserDialog, SetLifecycleEventsEnabled};
use cdp::protocol::runtime::RunIfWaitingForDebugger;
use cdp::protocol::target::{SetAutoAttach, TargetFilter};
use cdp::protocol::{inspector, log, network, page, runtime};
use cdp::{CdpError, SessionClient};

use crate::arguments::Settings;

/// Turns on everything that a tab needs to know about a session, and lets its target run. All
/// commands are on their way before the first is answered.
pub(crate) async fn set_up(
    client: &SessionClient,
    settings: &Settings,
    is_page: bool,
) -> Result<(), CdpError> {
    let as_page = async {
        if is_page {
            tokio::join!(view(client, settings), client.run(SetFocusEmulationEnabled { enabled: true })).0
        } else {
            Ok(())
        }
    };
    let frames_below = SetAutoAttach {
        auto_attach: true,
        wait_for_debugger_on_start: true,
        flatten: true,
        filter: Some(vec![
            TargetFilter { kind: Some("iframe"), exclude: false },
            TargetFilter { kind: None, exclude: true },
        ]),
    };
    // The browser keeps no bodies of responses, which nobody reads.
    let network = network::Enable { max_total_buffer_size: 0, max_resource_buffer_size: 0 };
    // Written in this order: the target runs after everything else is on.
    let (page, _, _, _, _, _, _, _, _, _) = tokio::join!(
        client.run(page::Enable {}),
        client.run(SetLifecycleEventsEnabled { enabled: true }),
        client.run(network),
        client.run(runtime::Enable {}),
        client.run(log::Enable {}),
        client.run(inspector::Enable {}),
        client.run(SetInterceptFileChooserDialog { enabled: true, cancel: true }),
        as_page,
        client.run(frames_below),
        client.run(RunIfWaitingForDebugger {}),
    );
    page.map(|_| ())
}

/// Gives the page its viewport, unless a window does.
async fn view(client: &SessionClient, settings: &Settings) -> Result<(), CdpError> {
    if settings.has_windows {
        return Ok(());
    }
    let (width, height) = settings.viewport;
    let command = SetDeviceMetricsOverride { width, height, device_scale_factor: 1.0, mobile: false };
    client.run(command).await.map(|_| ())
}
