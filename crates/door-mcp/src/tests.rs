//! Tests of whole connections, from the client's view.

mod apart;
mod approval;
mod coming_back;
mod eras;
mod forms;
mod hostile;
mod ids;
mod lifetime;
mod sampling;
mod tasks;
